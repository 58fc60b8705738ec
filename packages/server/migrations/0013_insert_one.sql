-- compatible-with: 3
--
-- What a job that is added alone costs, less (decision 0004).

-- The three checks of a job's row as one: PostgreSQL reads each of them anew for every statement, which was a twelfth of its
-- time of adding one job. States are in the order of migration 0001, unfinished ones first and those with a holder last of
-- them.
--
-- Not looking at the rows that are there, which would keep everybody waiting: the old checks have held for them. The next
-- migration looks.
alter table drover.job
  add constraint job_is_sound check (
    state <= 'unknown' and (state >= 'running') = (session_id is not null)
    and attempt >= 0 and fence >= attempt and max_attempts >= 1 and lost_attempts >= 0
  ) not valid,
  drop constraint job_is_unfinished,
  drop constraint job_has_a_holder,
  drop constraint job_limits;

-- For a job that was just inserted, later in the same statement: an error (unique_violation) if it has finished before.
-- A function that may change something sees what was committed until it is called, as decision 0004 asks. No job can have
-- finished before `history_from`, when its id was made; the upper bound, with room for a clock that goes back, keeps the
-- partitions of days to come out of it.
create function drover.refuse_finished(job_id uuid, history_from timestamptz) returns void
language plpgsql as $$
begin
  perform
  from drover.job_history h
  where h.id = job_id and h.finished_at >= history_from and h.finished_at < now() + interval '1 day';
  if found then
    raise unique_violation using message = 'a job with this id has finished before';
  end if;
end $$;
