/** Opening a session is one transaction: wherever it breaks nothing is changed, and the next hello does all of it. */
import { type Hello, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectDatabase, type Database, type Runner, type TransactionRunner } from '../../src/db/database.js';
import { sql } from '../../src/db/statement.js';
import type { Change } from '../../src/lifecycle/change.js';
import { openSession } from '../../src/sessions/open-session.js';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { startAnswerHolder } from '../support/answer-holder.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { connect, helloOf, PROOF, previously, register } from '../support/raw-worker.js';

const LEASE_MS = 30_000;
const OTHER_SERVER = newId();
const pid = sql('backend_pid')`select pg_backend_pid() as pid`;
const serializationFailure = sql('conflict')`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`;

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

type Situation = { hello: Hello; ids: { named: string; unnamed: string; kept: string; undelivered: string } };

/**
 * A worker whose process died with two jobs, one of which its journal names, is followed by one that another server has served
 * until now. That one has a job, and was granted another that never arrived.
 */
async function prepare(isJournalIncomplete: boolean): Promise<Situation> {
  const [before, sessionId] = [newId(), newId()];
  await openSession(bench.db.control, SERVER_ID, helloOf({ sessionId: before }), LEASE_MS, PROOF);
  await openSession(bench.db.control, OTHER_SERVER, helloOf({ sessionId }), LEASE_MS, PROOF);
  const [named, unnamed] = [await grant(before, 'rerun'), await grant(before, 'hold')];
  const [kept, undelivered] = [await grant(sessionId, 'rerun'), await grant(sessionId, 'rerun')];
  const hello = helloOf({ sessionId, previousSessions: previously(before), holds: [named, kept], isJournalIncomplete });
  return { hello, ids: { named: named.id, unnamed: unnamed.id, kept: kept.id, undelivered: undelivered.id } };
}

async function grant(sessionId: string, onLost: 'rerun' | 'hold') {
  const type = newId();
  await bench.add({ type, onLost });
  const [job] = await bench.claim(1, { types: [type], sessionId });
  if (!job) throw new Error('nothing was claimed');
  return { id: job.id, fence: job.fence };
}

/** Everything that an opening may change. */
async function rowsOf({ hello, ids }: Situation): Promise<unknown[]> {
  const { rows } = await bench.pool.query(
    `select id, to_jsonb(s) as row from drover.session s where id = any($1::uuid[])
     union all select id, to_jsonb(j) from drover.job j where id = any($2::uuid[]) order by id`,
    [[hello.sessionId, ...(hello.previousSessions ?? []).map(({ id }) => id)], Object.values(ids)],
  );
  return rows;
}

/** Runs `before` in the transaction before each of its statements. */
function watched(
  before: (tx: Runner, statement: string) => unknown,
  { control }: Pick<Database, 'control'> = bench.db,
): TransactionRunner {
  return {
    ...control,
    transaction: (work) =>
      control.transaction((tx) =>
        work({
          ...tx,
          async run(statement, values) {
            await before(tx, statement.name);
            return tx.run(statement, values);
          },
          async runTexts(statement, values) {
            await before(tx, statement.name);
            return tx.runTexts(statement, values);
          },
        }),
      ),
  };
}

/** Runs `act` once, before the statement with this number. */
function interrupted(at: number, act: (tx: Runner) => Promise<unknown>): TransactionRunner {
  let sent = 0;
  return watched((tx) => (sent++ === at ? act(tx) : undefined));
}

async function terminate(tx: Runner): Promise<void> {
  const [row] = await tx.run<{ pid: number }>(pid);
  await bench.pool.query('select pg_terminate_backend($1, 5000)', [row?.pid]);
}

const summary = (changes: readonly Change[] = []) => changes.map(({ id, verb, to }) => ({ id, verb, to }));

async function expectOpened({ hello, ids }: Situation, opened: Awaited<ReturnType<typeof openSession>>): Promise<void> {
  const unnamed = hello.isJournalIncomplete ? { verb: 'lose', to: 'unknown' } : { verb: 'release', to: 'ready' };
  expect(opened?.held.map(({ id }) => id).sort()).toEqual([ids.named, ids.kept].sort());
  expect(summary(opened?.changes)).toEqual([
    { id: ids.unnamed, ...unnamed },
    { id: ids.undelivered, verb: 'release', to: 'ready' },
  ]);
  expect(await bench.row(ids.named)).toMatchObject({ state: 'running', session_id: hello.sessionId, inherited: true });
  expect(await bench.row(ids.unnamed)).toMatchObject({ state: unnamed.to });
  expect(await bench.row(ids.kept)).toMatchObject({ state: 'running', session_id: hello.sessionId });
  expect(await bench.row(ids.undelivered)).toMatchObject({ state: 'ready', attempt: 0, lost_attempts: 0 });
}

const nextHello = (hello: Hello): Hello => ({ ...hello, connection: hello.connection + 1 });

describe.each([
  ['whole', false],
  ['incomplete', true],
] as const)('with a journal that is %s', (_, isJournalIncomplete) => {
  const statements = [
    ...['session_open', 'session_end_previous', 'session_inherit', 'session_never_started'],
    ...[isJournalIncomplete ? 'lose_grants' : 'release', 'session_held', 'release'],
  ];

  test('the opening sends the statements that are broken below', async () => {
    const sent: string[] = [];
    const db = watched((_tx, statement) => sent.push(statement));
    const situation = await prepare(isJournalIncomplete);
    await expectOpened(situation, await openSession(db, SERVER_ID, situation.hello, LEASE_MS, PROOF));
    expect(sent).toEqual(statements);
  });

  test.each(statements.map((name, at) => [name, at] as const))(
    'a connection that breaks before %s (%i) leaves everything as it was, and the next hello does all of it',
    async (__, at) => {
      const situation = await prepare(isJournalIncomplete);
      const before = await rowsOf(situation);
      const broken = openSession(interrupted(at, terminate), SERVER_ID, situation.hello, LEASE_MS, PROOF);
      await expect(broken).rejects.toMatchObject({ kind: 'unavailable' });
      expect(await rowsOf(situation)).toEqual(before);
      const next = await openSession(bench.db.control, SERVER_ID, nextHello(situation.hello), LEASE_MS, PROOF);
      await expectOpened(situation, next);
    },
  );

  test.each(statements.map((name, at) => [name, at] as const))(
    'a serialization failure before %s (%i) runs all of it again, and the result is that of one run',
    async (__, at) => {
      const situation = await prepare(isJournalIncomplete);
      const conflicting = interrupted(at, (tx) => tx.run(serializationFailure));
      await expectOpened(situation, await openSession(conflicting, SERVER_ID, situation.hello, LEASE_MS, PROOF));
    },
  );

  test('an answer to COMMIT that is lost: the same hello, or the next one, finds everything done', async () => {
    const situation = await prepare(isJournalIncomplete);
    const holder = await startAnswerHolder(String(bench.pool.options.connectionString));
    const db = connectDatabase({ url: holder.url, poolSize: 1 });
    // not before: BEGIN names the isolation level "read committed"
    const held = watched((_tx, statement) => statement === 'session_held' && holder.holdAnswersTo('commit'), db);
    const told = expect(openSession(held, SERVER_ID, situation.hello, LEASE_MS, PROOF)).rejects.toMatchObject({
      kind: 'unknown',
    });
    await expect.poll(() => holder.holds('COMMIT')).toBe(true);
    await holder.close();
    await told;
    await db.close();
    for (const hello of [situation.hello, nextHello(situation.hello)]) {
      const opened = await openSession(bench.db.control, SERVER_ID, hello, LEASE_MS, PROOF);
      expect(opened?.held).toHaveLength(2);
      expect(opened?.changes).toEqual([]);
    }
  });
});

describe('over the stream', () => {
  let api: ApiBench;
  beforeAll(async () => {
    api = await createApiBench({ beatMs: 10_000, leaseMs: 60_000 });
  });
  afterAll(() => api.close());

  test('a worker whose opening broke is refused, and its next hello is answered', async () => {
    const { pool } = api.database;
    const { worker: dead, hello: before } = await register(api.port);
    dead.terminate();
    const blocker = await pool.connect();
    await blocker.query('begin');
    await blocker.query('select from drover.session where id = $1 for update', [before.sessionId]);
    const hello = helloOf({ previousSessions: previously(before.sessionId) });
    const worker = await connect({ port: api.port });
    worker.send(hello);
    const opening = `select pid from pg_stat_activity
      where wait_event_type = 'Lock' and query like '%its process ended and was followed%'`;
    await expect.poll(async () => (await pool.query(opening)).rowCount).toBe(1);
    await pool.query(`select pg_terminate_backend(pid, 5000) from (${opening}) opening`);
    expect(await worker.next('refused')).toMatchObject({ code: 'database_unavailable' });
    const rows = await pool.query('select from drover.session where id = $1', [hello.sessionId]);
    expect(rows.rowCount).toBe(0);
    await blocker.query('commit');
    blocker.release();
    const again = await connect({ port: api.port });
    again.send(nextHello(hello));
    expect(await again.next('welcome')).toMatchObject({ dropped: [] });
    again.terminate();
  });
});
