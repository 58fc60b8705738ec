-- compatible-with: 3
--
-- The era of adds, a number that changes whenever an add is repeated (decision 0019).
--
-- A sequence, because that is what PostgreSQL has that everybody sees at once, whatever their snapshots: a job that was added in
-- the era its client named was not repeated before its row was there. Its values are random and never come again, also where a
-- failover or a restored backup takes it back.
create sequence drover.era;

-- Answers the new era.
create function drover.end_era() returns bigint
language sql volatile as $$
  select setval('drover.era', 1 + ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint)
$$;

select drover.end_era();
