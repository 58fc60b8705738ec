/** The registry of job types: what a hello changes, who decides when workers differ, and what is forgotten. */
import { type Hello, LIMITS, newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { listTypes } from '../../src/queries/list-types.js';
import { createJobTypes, definitionsOf, type JobTypes } from '../../src/sessions/job-types.js';
import { openSession } from '../../src/sessions/open-session.js';
import { forgetOldTypes } from '../../src/sessions/type-store.js';
import { createEvents } from '../../src/telemetry/log-events.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { helloOf, PROOF } from '../support/raw-worker.js';

const LEASE_MS = 30_000;

let bench: LifecycleBench;
let types: JobTypes;
let changes: number;
let statements: string[];
let logged: Record<string, unknown>[];
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());
beforeEach(() => {
  types = createTypes();
  changes = 0;
  statements = [];
  logged = [];
});
afterEach(() => bench.pool.query('truncate drover.job_type, drover.session'));

function createTypes(): JobTypes {
  const { control } = bench.db;
  const db: Runner = {
    ...control,
    run(statement, values) {
      statements.push(statement.name);
      return control.run(statement, values);
    },
  };
  const logger = pino({}, { write: (line: string) => void logged.push(JSON.parse(line)) });
  const onChange = () => {
    changes += 1;
  };
  return createJobTypes({ db, events: createEvents(logger), onChange });
}

const wire = (defaults: object, payloadSchema?: object) => ({
  ...{ type: 'bank.wire', defaults },
  ...(payloadSchema && { payloadSchema: JSON.stringify(payloadSchema) }),
});

async function register(given: Partial<Hello>): Promise<Hello> {
  const hello = helloOf({ types: ['bank.wire'], ...given });
  await again(hello);
  return hello;
}

/** The worker connects again. */
async function again(hello: Hello): Promise<void> {
  const definitions = definitionsOf(hello);
  const hashes = definitions.map(({ hash }) => hash);
  await openSession(bench.db.control, SERVER_ID, hello, LEASE_MS, PROOF, hashes);
  await types.register(hello, definitions);
}

const known = async () => (await types.known()).get('bank.wire');

test('a hello registers its definitions; the same again writes nothing and reads nothing', async () => {
  const hello = await register({ definitions: [wire({ maxAttempts: 1, onLost: 'hold' }, { type: 'object' })] });
  expect(await known()).toMatchObject({
    defaults: { maxAttempts: 1, onLost: 'hold' },
    payloadSchema: { type: 'object' },
  });
  expect(changes).toBe(1);
  statements = [];
  await again({ ...hello, connection: hello.connection + 1 });
  await register({ definitions: hello.definitions });
  expect(statements).toEqual([]);
  expect(changes).toBe(1);
});

test('a server that was not told reads the change with its next look', async () => {
  const other = createTypes();
  expect((await other.known()).size).toBe(0);
  await register({ definitions: [wire({ priority: 3 })] });
  await other.refresh();
  expect((await other.known()).get('bank.wire')).toMatchObject({ defaults: { priority: 3 } });
  statements = [];
  await other.refresh();
  expect(statements).toEqual(['types_state']);
});

test('the worker that was started last decides, also when an older one connects again', async () => {
  const older = await register({ name: 'older', definitions: [wire({ maxAttempts: 3 })] });
  const newer = await register({ name: 'newer', definitions: [wire({ maxAttempts: 1 })] });
  await again({ ...older, connection: older.connection + 1_000_000 });
  expect(await known()).toMatchObject({ defaults: { maxAttempts: 1 } });
  // no worker is left: the definition stays
  await bench.pool.query(`update drover.session set ended_at = now(), ending = 'resigned'`);
  expect(await known()).toMatchObject({ defaults: { maxAttempts: 1 } });
  expect(newer.name).toBe('newer');
});

test('live workers that differ are a conflict: told once, and listed with who they are', async () => {
  await register({ name: 'older', definitions: [wire({ maxAttempts: 3 })] });
  await register({ name: 'same as older', definitions: [wire({ maxAttempts: 3 })] });
  expect(logged).toEqual([]);
  const newer = await register({ name: 'newer', definitions: [wire({ maxAttempts: 1 })] });
  await register({ name: 'same as newer', definitions: newer.definitions });
  await register({ name: 'older again', definitions: [wire({ maxAttempts: 3 })] });
  expect(logged).toMatchObject([
    { event: 'type.conflict', type: 'bank.wire', worker: 'newer', others: ['older', 'same as older'], count: 2 },
  ]);
  const [listed] = await listTypes(bench.db.reads);
  expect(listed).toMatchObject({
    ...{ type: 'bank.wire', workers: 5, conflict: true, defaults: { maxAttempts: 3 } },
    definitions: [
      { current: true, workers: 3, names: ['older', 'older again', 'same as older'] },
      { current: false, workers: 2, names: ['newer', 'same as newer'] },
    ],
  });
});

test('a worker that does not say its definitions makes its types known and changes none', async () => {
  await register({});
  expect(await known()).toMatchObject({ hash: null, defaults: {} });
  await register({ definitions: [wire({ maxAttempts: 1 })] });
  await register({});
  expect(await known()).toMatchObject({ defaults: { maxAttempts: 1 } });
  expect(logged).toEqual([]);
  const [listed] = await listTypes(bench.db.reads);
  expect(listed).toMatchObject({ conflict: false, workers: 3 });
});

test('a hello that names a type twice registers it once', async () => {
  const definition = wire({ maxAttempts: 1 });
  await register({ types: ['bank.wire', 'bank.wire'], definitions: [definition, definition] });
  expect(await known()).toMatchObject({ defaults: { maxAttempts: 1 } });
});

test('a schema that PostgreSQL could not store is left out', async () => {
  await register({ definitions: [{ type: 'bank.wire', defaults: {}, payloadSchema: '{"const":"\\u0000"' }] });
  expect((await known())?.payloadSchema).toBeUndefined();
  await register({ definitions: [wire({}, { const: '\u0000' })] });
  expect((await known())?.payloadSchema).toEqual({ const: '\u0000' });
});

test('only a type that no live worker offers can be forgotten', async () => {
  await register({ definitions: [wire({ maxAttempts: 1 })] });
  expect(await types.forget('bank.wire')).toBe('in_use');
  await bench.pool.query(`update drover.session set ended_at = now(), ending = 'resigned'`);
  expect(await types.forget('bank.wire')).toBe('forgotten');
  expect(await known()).toBeUndefined();
  expect(await types.forget('bank.wire')).toBe('unknown');
});

test('a type is forgotten when no worker has offered it for long', async () => {
  await register({ definitions: [wire({})] });
  const stale = { type: 'stale', defaults: {} };
  await bench.pool.query(
    `insert into drover.job_type (type, hash, defaults, defined_at) values ($1, 'a', $2, now())`,
    Object.values(stale),
  );
  await bench.pool.query(`update drover.job_type set last_seen_at = now() - $1 * interval '1 millisecond'`, [
    LIMITS.typeKeptMs + 1000,
  ]);
  expect(await forgetOldTypes(bench.db.reads)).toEqual(['stale']);
  expect((await listTypes(bench.db.reads)).map(({ type }) => type)).toEqual(['bank.wire']);
});

test('beyond the limit a further type is told once and not kept', async () => {
  await bench.pool.query(
    `insert into drover.job_type (type, hash, defined_at) select 'type-' || n, 'a', now() from generate_series(1, $1) n`,
    [LIMITS.knownTypes],
  );
  await register({ definitions: [wire({ maxAttempts: 1 })] });
  await register({ types: ['another'] });
  expect(await known()).toBeUndefined();
  expect(logged).toMatchObject([{ event: 'types.full', limit: LIMITS.knownTypes, missing: 1, first: 'bank.wire' }]);
  // the known ones still change
  await register({ types: ['type-1'], definitions: [{ type: 'type-1', defaults: { priority: 9 } }] });
  expect((await types.known()).get('type-1')).toMatchObject({ defaults: { priority: 9 } });
});

test('workers that register the same types at once do not stand in each other’s way', async () => {
  const names = Array.from({ length: 30 }, (_, index) => `type-${index}`);
  const hellos = Array.from({ length: 8 }, (_, number) => {
    const shuffled = number % 2 === 0 ? names : [...names].reverse();
    const definitions = shuffled.map((type) => ({ type, defaults: { priority: number } }));
    return helloOf({ sessionId: newId(), types: shuffled, definitions });
  });
  await Promise.all(hellos.map(again));
  expect((await types.known()).size).toBe(30);
});
