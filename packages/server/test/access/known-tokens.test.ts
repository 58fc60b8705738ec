/** The copy of tokens in a server's memory, with a clock and a database that a test controls. */
import { newId, type Role } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { createKnownTokens, type KnownTokens } from '../../src/access/known-tokens.js';
import { createSecret, type GivenToken, readToken } from '../../src/access/token-secret.js';
import { createToken, listTokens, revokeToken, rotateToken } from '../../src/access/token-table.js';
import { connectDatabase, type Database, type Runner } from '../../src/db/database.js';
import { DatabaseError } from '../../src/db/database-error.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const ALL = { queues: null, types: null, payloads: true };
const MINUTE_MS = 60_000;
let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = connectDatabase({ url: database.url, poolSize: 2 });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

let nowMs: number;
let fault: Error | undefined;
let reads: number;
let known: KnownTokens;
beforeEach(() => {
  nowMs = 1_000_000;
  fault = undefined;
  reads = 0;
  const runner: Runner = {
    ...db.control,
    run(statement, values) {
      reads += 1;
      return fault ? Promise.reject(fault) : db.control.run(statement, values);
    },
  };
  known = createKnownTokens({ db: runner, logger: pino({ level: 'silent' }), now: () => nowMs });
});

async function made(role: Role = 'client', lifetimeMs: number | null = null) {
  const id = newId();
  const { secret, hash } = createSecret(id);
  await createToken(db.control, { id, name: `name-${id}`, role, hash, lifetimeMs, ...ALL }, 'a test');
  return { id, given: readToken(secret) as GivenToken };
}
const find = async (token: GivenToken, needsDatabase = false) =>
  (await known.find(token, { needsDatabase, mayRead() {} }))?.tokenId;

test('a token that was used lately is known without the database', async () => {
  const { id, given } = await made();
  expect(await find(given)).toBe(id);
  nowMs += 4999;
  expect(await find(given)).toBe(id);
  expect(reads).toBe(1);
});

test('a revoked token is refused within five seconds even if no hint arrives', async () => {
  const { id, given } = await made();
  expect(await find(given)).toBe(id);
  await revokeToken(db.control, id, 'a test');
  nowMs += 5001;
  expect(await find(given)).toBeUndefined();
});

test('a token with another secret, and one that does not exist, are refused', async () => {
  const { id, given } = await made();
  const { secret } = createSecret(id);
  expect(await find(given)).toBe(id);
  expect(await find(readToken(secret) as GivenToken)).toBeUndefined();
  expect(await find(readToken(createSecret(newId()).secret) as GivenToken)).toBeUndefined();
});

test('the clock of the database decides when a token expires', async () => {
  const { id, given } = await made('client', 10_000);
  expect(await find(given)).toBe(id);
  // between two readings the time that was left then counts
  nowMs += 4000;
  expect(await find(given)).toBe(id);
  await database.pool.query("update drover.token set expires_at = now() - interval '1 ms' where id = $1", [id]);
  nowMs += 2000;
  expect(await find(given)).toBeUndefined();
});

test('a new secret is valid at once, and the present one for the overlap', async () => {
  const { id, given } = await made();
  expect(await find(given)).toBe(id);
  const next = createSecret(id);
  await rotateToken(db.control, id, { hash: next.hash, overlapMs: 4000, lifetimeMs: undefined });
  expect(await find(readToken(next.secret) as GivenToken)).toBe(id);
  expect(await find(given)).toBe(id);
  nowMs += 4500;
  // again because its answer was lost: the oldest secret stays
  const again = createSecret(id);
  await rotateToken(db.control, id, { hash: again.hash, overlapMs: 4000, lifetimeMs: undefined });
  expect(await find(readToken(again.secret) as GivenToken)).toBe(id);
  expect(await find(readToken(next.secret) as GivenToken)).toBeUndefined();
  await database.pool.query("update drover.token set previous_until = now() - interval '1 ms' where id = $1", [id]);
  nowMs += 6000;
  expect(await find(given)).toBeUndefined();
});

test('while the database does not answer, a known token is accepted for five minutes, but not where only admins may', async () => {
  const { id, given } = await made('admin');
  const stranger = await made();
  expect(await find(given)).toBe(id);
  fault = new DatabaseError('unavailable', 'it is away');
  nowMs += 4 * MINUTE_MS;
  expect(await find(given)).toBe(id);
  await expect(find(given, true)).rejects.toThrow('it is away');
  await expect(find(stranger.given)).rejects.toThrow('it is away');
  nowMs += MINUTE_MS + 1;
  await expect(find(given)).rejects.toThrow('it is away');
  fault = undefined;
  expect(await find(given)).toBe(id);
});

test('a stream ends when its token is revoked, and not while the database does not answer', async () => {
  const { id, given } = await made();
  const principal = await known.find(given, { needsDatabase: false, mayRead() {} });
  if (!principal) throw new Error('the token is not known');
  const end = vi.fn();
  known.watch(principal, end);
  const other = vi.fn();
  known.watch(principal, other)();
  fault = new DatabaseError('unavailable', 'it is away');
  nowMs += 10 * MINUTE_MS;
  known.refresh();
  await expect(find(given)).rejects.toThrow();
  expect(end).not.toHaveBeenCalled();
  fault = undefined;
  await revokeToken(db.control, id, 'a test');
  known.refresh();
  await vi.waitFor(() => expect(end).toHaveBeenCalledTimes(1));
  expect(other).not.toHaveBeenCalled();
  // its token is gone already
  known.watch(principal, other);
  expect(other).toHaveBeenCalledTimes(1);
});

test('the last use is written when the server stops, not with each request', async () => {
  const { id, given } = await made();
  await find(given);
  const lastUsedAt = async () => (await listTokens(db.control)).find((token) => token.id === id)?.lastUsedAt;
  expect(await lastUsedAt()).toBeNull();
  await known.stop();
  expect(await lastUsedAt()).toEqual(expect.any(String));
});

test('the database has no secret', async () => {
  const id = newId();
  const { secret, hash } = createSecret(id);
  await createToken(db.control, { id, name: 'hidden', role: 'admin', hash, lifetimeMs: null, ...ALL }, 'a test');
  const { rows } = await database.pool.query('select t::text as row from drover.token t');
  const random = secret.slice(-43);
  expect(secret).toMatch(/^drv_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/);
  for (const { row } of rows) {
    expect(row).not.toContain(random);
    expect(row).not.toContain(Buffer.from(random, 'base64url').toString('hex'));
  }
});
