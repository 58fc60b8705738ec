-- compatible-with: 3
--
-- The rows from before migration 0016, under a lock that lets everybody go on.
alter table drover.job validate constraint job_is_sound;
