-- compatible-with: 3
--
-- By which release of the time zone rules (2025b …) a schedule's next time was found. They come with Node, so servers of a
-- rolling upgrade may differ; see schedules/follow-rules.

alter table drover.schedule
  -- null: nobody knows
  add column zone_rules text collate "C",
  -- of local time to UTC at next_at by these rules
  add column next_offset_ms int,
  -- a server with older rules has replaced the next time that a newer one had found
  add column rules_outdated boolean not null default false;

-- Usually empty.
create index schedule_rules_outdated on drover.schedule (zone_rules, id) where rules_outdated;
