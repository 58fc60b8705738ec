-- compatible-with: 3
--
-- The bulk path of adding jobs: rows that are surely new and bring no options come by COPY, which writes a page of them at
-- once. What such rows leave out:
alter table drover.job
  alter column run_at set default now(),
  alter column max_attempts set default 10,
  alter column state set default 'ready';

-- The second half of it, in the same transaction as the COPY and in a statement of its own, for the reason that decision
-- 0004 gives. A job that is in the history too is a copy of one that has finished: it is an error (unique_violation), and
-- nothing is added. The ids of a batch lie close together, so one look at their range is enough.
create function drover.check_copied_jobs(
  lowest uuid, highest uuid, history_from timestamptz, queues text[], types text[]
) returns void
language plpgsql as $$
begin
  insert into drover.lane (queue, type)
  select used.queue, used.type
  from unnest(queues, types) as used(queue, type)
  where not exists (select from drover.lane l where l.type = used.type and l.queue = used.queue);

  perform
  from drover.job_history h
  where h.id between lowest and highest
    -- the upper bound keeps the empty partitions of days to come out of it
    and h.finished_at >= history_from and h.finished_at < now() + interval '1 day'
    -- "offset" keeps it a probe for each of the few found, whatever the planner thinks of the sizes
    and exists (select from drover.job j where j.id = h.id offset 0);
  if found then
    raise unique_violation using message = 'a job of this batch has finished before';
  end if;
end $$;
