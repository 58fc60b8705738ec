-- The limits of a job as SQL knows them. A test compares them with the limits of the protocol (packages/protocol/src/limits.ts).

create function drover.job_limit(name text) returns int
language sql immutable as $$
  select case name
    when 'nameLength' then 128
    when 'priority' then 1000
    when 'maxAttempts' then 1000
    when 'defaultMaxAttempts' then 10
    when 'tags' then 20
    when 'tagLength' then 128
    when 'idempotencyKeyLength' then 255
    when 'backoffDelays' then 100
    when 'payloadBytes' then 1048576
    when 'payloadDepth' then 1000
    when 'batchJobs' then 10000
    when 'mapItems' then 10000
    when 'mapWindow' then 1000
    when 'runDepth' then 8
  end
$$;
