-- Who may call the servers.

-- A secret has 256 random bits, so its plain hash cannot be reversed. Only the answer that creates it has the secret.
create table drover.token (
  id uuid primary key,
  name text collate "C" not null,
  role text not null,
  hash bytea not null,
  -- the secret before the last rotation, valid beside the new one
  previous_hash bytea,
  previous_until timestamptz,
  -- patterns of the queues and types that it may use; null: all
  queues text[],
  types text[],
  -- whether it may read payloads, results, progress and errors
  payloads boolean not null default true,
  created_by text not null,
  created_at timestamptz not null default now(),
  rotated_at timestamptz,
  -- null: never
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  revoked_by text,
  constraint token_rotates_whole check ((previous_hash is null) = (previous_until is null)),
  constraint token_is_revoked_by_someone check ((revoked_at is null) = (revoked_by is null))
);
-- A revoked token leaves its name to the next one.
create unique index token_name on drover.token (name) where revoked_at is null;

-- Who has changed what: one row per change, written in its transaction. Payloads are not in it, only their sizes and hashes.
create table drover.audit (
  -- a UUIDv7 that the server makes, so that a statement that is sent again writes one row
  id uuid primary key,
  at timestamptz not null default now(),
  principal text not null,
  kind text not null,
  token_id uuid,
  address text not null,
  request_id text,
  action text not null,
  target text,
  before json,
  after json,
  outcome text not null check (outcome in ('done', 'denied'))
);
create index audit_at on drover.audit (at);
create index audit_target on drover.audit (target, id) where target is not null;
