-- compatible-with: 3
--
-- Who paused a worker, when and why, as for every other pause; null unless it is paused.
alter table drover.session
  add column paused_by text,
  add column paused_at timestamptz,
  add column pause_note text;
