/** The table of tokens. What is valid is decided here, by the database's clock. */
import { DroverError, type Role, type Token } from '@drover/protocol';
import { byKey } from '../db/by-key.js';
import type { Runner } from '../db/database.js';
import { DatabaseError } from '../db/database-error.js';
import { sql } from '../db/statement.js';

/** More are a mistake, and a longer list would be useless. */
const MAX_LISTED = 10_000;
const UNIQUE_VIOLATION = '23505';

const COLUMNS = `id::text as id, 'token' as kind, name, role,
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end as state,
  queues, types, payloads,
  created_by as "createdBy", drover.iso(created_at) as "createdAt", drover.iso(rotated_at) as "rotatedAt",
  drover.iso(expires_at) as "expiresAt", case when previous_until > now() then drover.iso(previous_until) end as "overlapUntil",
  drover.iso(last_used_at) as "lastUsedAt", drover.iso(revoked_at) as "revokedAt", revoked_by as "revokedBy"`;

const IS_VALID = 'revoked_at is null and (expires_at is null or expires_at > now())';
const inMs = (parameter: string) => `now() + ${parameter}::double precision * interval '1 millisecond'`;

const create = sql('token_create')`
insert into drover.token (id, name, role, hash, created_by, expires_at, queues, types, payloads)
values ($1, $2, $3, decode($4, 'hex'), $5, ${inMs('$6')}, $7, $8, $9)
returning ${COLUMNS}`;

const list = sql('token_list')`
select ${COLUMNS} from drover.token order by revoked_at is not null, name, created_at limit ${MAX_LISTED}`;

const revoke = sql('token_revoke')`
update drover.token set revoked_at = now(), revoked_by = $2 where id = $1 and revoked_at is null returning ${COLUMNS}`;

/**
 * Within an overlap the older secret stays and the newer one is replaced, so a rotation that is repeated because its answer was
 * lost does not shut out those who have the older one.
 */
const rotate = sql('token_rotate')`
update drover.token
set hash = decode($2, 'hex'), rotated_at = now(),
  previous_hash = case when previous_until > now() then previous_hash else hash end,
  previous_until = case when previous_until > now() then previous_until else ${inMs('$3')} end,
  expires_at = case when $4 then ${inMs('$5')} else now() + (expires_at - coalesce(rotated_at, created_at)) end
where id = $1 and revoked_at is null
returning ${COLUMNS}`;

const leftMs = (time: string) => `extract(epoch from ${time} - now())::double precision * 1000`;

const read = sql('token_read')`
select t.id::text as id, t.name, t.role, t.queues, t.types, t.payloads, encode(t.hash, 'hex') as hash, ${leftMs('t.expires_at')} as "leftMs",
  encode(t.previous_hash, 'hex') as "previousHash", ${leftMs('t.previous_until')} as "previousLeftMs"
from unnest($1::uuid[]) as wanted(id)
join drover.token t on ${byKey('t.id', 'wanted.id')}
where ${IS_VALID}`;

const noteUse = sql('token_note_use')`
update drover.token t
set last_used_at = greatest(t.last_used_at, now() - u.age_ms * interval '1 millisecond')
from json_to_recordset($1) as u(id uuid, age_ms double precision)
where ${byKey('t.id', 'u.id')}`;

const prune = sql('token_prune')`
delete from drover.token where least(revoked_at, expires_at) < now() - $1::double precision * interval '1 millisecond'`;

const anyValid = sql('token_any')`select from drover.token where ${IS_VALID} limit 1`;

/** Null: all. */
type Limits = { queues: string[] | null; types: string[] | null; payloads: boolean };

/** A valid token, with what is left of its time. */
export type StoredToken = Limits & {
  id: string;
  name: string;
  role: Role;
  /** Hexadecimal. */
  hash: string;
  leftMs: number | null;
  previousHash: string | null;
  previousLeftMs: number | null;
};

export type TokenToCreate = Limits & { id: string; name: string; role: Role; hash: Buffer; lifetimeMs: number | null };

/** Throws token_exists. */
export async function createToken(db: Runner, token: TokenToCreate, by: string): Promise<Token> {
  const { id, name, role, hash, lifetimeMs, queues, types, payloads } = token;
  try {
    const values = [id, name, role, hash.toString('hex'), by, lifetimeMs, queues, types, payloads];
    return (await db.run<Token>(create, values))[0] as Token;
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.sqlState !== UNIQUE_VIOLATION) throw error;
    const message = `there is a token with the name ${name}: rotate or revoke it, or choose another name`;
    throw new DroverError('token_exists', message, { name });
  }
}

export function listTokens(db: Runner): Promise<Token[]> {
  return db.run<Token>(list);
}

/** Undefined if there is no such token, or it was revoked before. */
export async function revokeToken(db: Runner, id: string, by: string): Promise<Token | undefined> {
  return (await db.run<Token>(revoke, [id, by]))[0];
}

export type Rotation = {
  hash: Buffer;
  overlapMs: number;
  /** Undefined: as long as before. */
  lifetimeMs: number | null | undefined;
};

/** Undefined if there is no such token, or it is revoked. */
export async function rotateToken(
  db: Runner,
  id: string,
  { hash, overlapMs, lifetimeMs }: Rotation,
): Promise<Token | undefined> {
  const values = [id, hash.toString('hex'), overlapMs, lifetimeMs !== undefined, lifetimeMs ?? null];
  return (await db.run<Token>(rotate, values))[0];
}

/** Those of the ids that are valid. */
export function readTokens(db: Runner, ids: readonly string[]): Promise<StoredToken[]> {
  return db.run<StoredToken>(read, [ids]);
}

export async function noteTokenUse(db: Runner, used: readonly { id: string; age_ms: number }[]): Promise<void> {
  await db.run(noteUse, [JSON.stringify(used)]);
}

/** Deletes those that were not valid for this long. */
export async function pruneTokens(db: Runner, retentionMs: number): Promise<void> {
  await db.run(prune, [retentionMs]);
}

export async function hasValidTokens(db: Runner): Promise<boolean> {
  return (await db.run(anyValid)).length > 0;
}
