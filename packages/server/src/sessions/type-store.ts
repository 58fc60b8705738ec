/** Definitions of job types in the database. */
import { createHash } from 'node:crypto';
import { LIMITS, type TypeDefaults, type TypeDefinition } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

/** 64 bits of SHA-256: a list of definitions is short, and nothing is decided by it that a worker could not decide anyway. */
const HASH_LENGTH = 16;

/** The hash of everything that a definition says. */
export function hashOf({ defaults, payloadSchema }: Omit<TypeDefinition, 'type'>): string {
  const text = JSON.stringify([defaults, payloadSchema ?? null]);
  return createHash('sha256').update(text).digest('hex').slice(0, HASH_LENGTH);
}

/**
 * The definition of the worker that was started last stays, so the reconnects of older workers change nothing. A row is
 * written only if it changes. The order of the types avoids deadlocks between workers that register at once.
 */
const register = sql('types_register')`
insert into drover.job_type as t (type, hash, defaults, payload_schema, defined_at)
select d.type, d.hash, d.defaults::jsonb, d.payload_schema::json, s.started_at
from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as d(type, hash, defaults, payload_schema)
join drover.session s on s.id = $1
where (select count(*) from drover.job_type) < ${LIMITS.knownTypes}
  or exists (select from drover.job_type known where ${byKey('known.type', 'd.type')})
order by d.type
on conflict (type) do update
set hash = excluded.hash, defaults = excluded.defaults, payload_schema = excluded.payload_schema,
  defined_at = excluded.defined_at, last_seen_at = now(), revision = excluded.revision
where excluded.hash is not null and excluded.hash is distinct from t.hash
  and (t.hash is null or t.defined_at <= excluded.defined_at)`;

const state = sql('types_state')`
select count(*) as count, coalesce(sum(revision), 0)::text as revisions from drover.job_type`;

const list = sql('types_read')`
select type, hash, defaults, payload_schema::text as payload_schema from drover.job_type limit ${2 * LIMITS.knownTypes}`;

/** Live workers that define one of these types in another way than this session does. */
const conflicts = sql('types_conflicts')`
select own.type, array_agg(distinct s.name order by s.name) as workers, count(*)::int as count,
  array_agg(distinct other.hash) as hashes
from unnest($2::text[], $3::text[]) as own(type, hash)
join drover.session s on s.ended_at is null and s.id <> $1 and own.type = any(s.types)
join lateral unnest(s.types, s.definition_hashes) as other(type, hash)
  on other.type = own.type and other.hash <> own.hash
group by own.type
order by own.type`;

const touch = sql('types_touch')`
update drover.job_type t
set last_seen_at = now()
where last_seen_at < now() - interval '1 hour'
  and exists (select from drover.session s where s.ended_at is null and t.type = any(s.types))`;

const forgetOld = sql('types_forget_old')`
delete from drover.job_type
where last_seen_at < now() - ${LIMITS.typeKeptMs} * interval '1 millisecond'
returning type`;

/** `found`: there is such a type, so a live worker offers it if it was not deleted. */
const forget = sql('types_forget')`
with deleted as (
  delete from drover.job_type
  where type = $1 and not exists (select from drover.session s where s.ended_at is null and $1 = any(s.types))
  returning type
)
select exists (select from deleted) as deleted, exists (select from drover.job_type where type = $1) as found`;

/** `hash` is null for a type whose definition the worker does not say. */
export type TypeToRegister = { type: string; hash: string | null } & Omit<TypeDefinition, 'type'>;

export async function writeTypes(db: Runner, sessionId: string, types: readonly TypeToRegister[]): Promise<void> {
  await db.run(register, [
    sessionId,
    types.map(({ type }) => type),
    types.map(({ hash }) => hash),
    types.map(({ defaults }) => JSON.stringify(defaults)),
    types.map(({ payloadSchema }) => payloadSchema ?? null),
  ]);
}

/** Changes whenever a row does. */
export async function readTypesState(db: Runner): Promise<string> {
  const [row] = await db.run<{ count: string; revisions: string }>(state);
  return `${row?.count} ${row?.revisions}`;
}

export type TypeRow = { type: string; hash: string | null; defaults: TypeDefaults; payload_schema: string | null };

export function readTypes(db: Runner): Promise<TypeRow[]> {
  return db.run<TypeRow>(list);
}

export type TypeConflict = { type: string; workers: string[]; count: number; hashes: string[] };

export function findConflicts(
  db: Runner,
  sessionId: string,
  types: readonly Pick<TypeToRegister, 'type' | 'hash'>[],
): Promise<TypeConflict[]> {
  return db.run<TypeConflict>(conflicts, [sessionId, types.map(({ type }) => type), types.map(({ hash }) => hash)]);
}

/** Forgets definitions that no worker has offered for LIMITS.typeKeptMs. */
export async function forgetOldTypes(db: Runner): Promise<string[]> {
  await db.run(touch);
  return (await db.run<{ type: string }>(forgetOld)).map(({ type }) => type);
}

export async function forgetType(db: Runner, type: string): Promise<'forgotten' | 'unknown' | 'in_use'> {
  const [row] = await db.run<{ deleted: boolean; found: boolean }>(forget, [type]);
  if (row?.deleted) return 'forgotten';
  return row?.found ? 'in_use' : 'unknown';
}
