-- compatible-with: 3
--
-- What every statement that adds or moves jobs pays, less of it (decision 0020). PostgreSQL opens each index of a table, makes
-- its condition ready and reads each check anew for every statement: about 3 µs an index, and 10 µs for the counters in the check
-- of a job's row, of some 190 for one job. Then each row is compared with each condition.
--
-- The first statement takes the lock that the others need, so that nobody can come in between with half of it. The table of
-- unfinished jobs is read twice meanwhile, for the indexes.

-- Without the counters, which no statement but those that count changes; where tests watch the moves of jobs, a trigger looks at
-- them. Not looking at the rows that are there, for which the old check has held: the next migration looks.
alter table drover.job
  drop constraint job_is_sound,
  add constraint job_is_sound check (state <= 'unknown' and (state >= 'running') = (session_id is not null)) not valid;

-- What a session holds, and of that what should be stopped; and what was to be stopped and came back meanwhile, which has no
-- session. In place of three indexes.
create index job_holder on drover.job (session_id, cancel_requested_at)
  where session_id is not null or cancel_requested_at is not null;
drop index drover.job_running, drover.job_unknown, drover.job_cancel_requested;

-- What waits for its time, and what for something else (the first two states of migration 0001). In place of two; unknown jobs,
-- which were in one of these, have a holder.
create index job_waiting on drover.job (state, run_at) where state <= 'scheduled';
drop index drover.job_due, drover.job_held;
