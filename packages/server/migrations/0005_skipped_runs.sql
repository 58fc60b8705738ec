-- compatible-with: 3
--
-- A row of the ledger may stand for a run of occurrences that were skipped for the same reason: an every-second schedule
-- that nobody could fire for a day is a few rows and not 86,400.
--
-- The nominal_at of a run is that of its first occurrence plus a microsecond. No nominal time has one, so each occurrence of the
-- run can still get a row of its own by a backfill. The run itself stays as it was written.

alter table drover.occurrence
  -- the nominal time of the last one of a run; null: one occurrence
  add column last_at timestamptz,
  add column occurrences int not null default 1;

-- Not valid: true of all rows there are, and reading them would hold up the firing.
alter table drover.occurrence
  add constraint occurrence_run_was_skipped
  check (case when last_at is null then occurrences = 1 else occurrences > 1 and state = 'skipped' end) not valid;

create index occurrence_run on drover.occurrence (schedule_id, nominal_at) where last_at is not null;
