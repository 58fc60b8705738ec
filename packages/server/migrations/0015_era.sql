-- compatible-with: 3
--
-- The era of adds, a number that changes whenever an add is repeated (decision 0019).
--
-- A sequence, because that is what PostgreSQL has that everybody sees at once, whatever their snapshots: a job that was added in
-- the era its client named was not repeated before its row was there. Its values are random, so that two databases, or a database
-- before and after a failover that loses something, never come to the same one by counting.
create sequence drover.era;

-- Answers the new era.
create function drover.end_era() returns bigint
language sql volatile as $$
  select setval('drover.era', 1 + ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint)
$$;

-- Adds jobs that may have been added before, in an era that may still last: ends it, and adds them as insert_jobs does. In one
-- statement, so that no failover comes in between.
create function drover.repeat_jobs(
  ids uuid[], types text[], queues text[], payloads json, sessions uuid[], options json[],
  history_from timestamptz, out existing uuid[], out era bigint
)
language plpgsql as $$
begin
  era := drover.end_era();
  existing := drover.insert_jobs(ids, types, queues, payloads, sessions, options, history_from, false);
end $$;

select drover.end_era();
