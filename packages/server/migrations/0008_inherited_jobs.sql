-- compatible-with: 3
--
-- A job that went over to its session from the session of a process that died: it had been started there. Every
-- other job of a session was granted to that very process, which knows whether it ever got it.
alter table drover.job add column inherited boolean not null default false;

-- For what a worker that was given up left behind, when it comes back; usually empty.
create index job_unknown on drover.job (session_id) where state = 'unknown';
