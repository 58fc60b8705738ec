-- Servers, workers, pauses, and the settings of the cluster.

create table drover.server (
  id uuid primary key,
  address text not null,
  host text not null,
  pid int not null,
  version text not null,
  draining boolean not null default false,
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now()
);

-- A worker process from its start to its end. The lease is the session's: jobs belong to it.
create table drover.session (
  id uuid primary key,
  -- the server that serves it now; null when none does
  server_id uuid,
  -- Which connection of its worker the session was taken with. A worker numbers its connections, so a hello that was
  -- delayed in the network cannot take the session back from a newer connection.
  connection int not null default 0,
  -- SHA-256 of the key by which its worker, and the next process with the same journal, prove that it is theirs; and an HMAC
  -- with that key of the credential that opened it. Null: it cannot be resumed.
  resume_key_hash bytea,
  credential_proof bytea,
  name text not null,
  host text not null,
  pid int not null,
  sdk text not null,
  types text[] not null,
  queues text[],
  slots int not null,
  running int not null default 0,
  missed_beats int not null default 0,
  draining boolean not null default false,
  paused boolean not null default false,
  -- who paused it, when and why; null unless it is paused
  paused_by text,
  paused_at timestamptz,
  pause_note text,
  ignores_pause boolean not null default false,
  started_at timestamptz not null default now(),
  beat_at timestamptz not null default now(),
  expires_at timestamptz not null,
  ended_at timestamptz,
  -- 'resigned' or 'dead', set together with ended_at
  ending text,
  last_error text,
  constraint session_ends_once check ((ended_at is null) = (ending is null))
) with (fillfactor = 70);

create index session_live on drover.session (expires_at) where ended_at is null;

-- What is paused, by whom and why: the cluster, a queue or a type of jobs. The pause of a worker is in its session.
create table drover.pause (
  scope text not null check (scope in ('cluster', 'queue', 'type')),
  name text collate "C" not null,
  note text,
  paused_by text not null,
  paused_at timestamptz not null default now(),
  primary key (scope, name),
  constraint the_cluster_has_no_name check ((scope = 'cluster') = (name = ''))
);

-- The servers' common pulse, one row. If it stopped (the database or all servers were away, a clock jumped, another server of
-- the database took over), no worker could renew its lease meanwhile, and every lease counts as renewed when the pulse
-- returned: see lifecycle/lose.
create table drover.beacon (
  id int primary key default 1 check (id = 1),
  at timestamptz not null default now(),
  timeline int not null default 0,
  gap_ended_at timestamptz not null default now()
);
insert into drover.beacon default values;

-- How often the reconciler repaired something, by kind.
create table drover.repair (
  kind text primary key,
  count bigint not null default 0,
  last_at timestamptz not null default now()
);

-- Settings of the whole cluster.
create table drover.setting (
  name text primary key,
  value json not null
);
-- The cluster's id. A worker stores it with its undelivered outcomes and does not deliver them to another cluster.
insert into drover.setting (name, value) values ('clusterId', to_json(gen_random_uuid()));
