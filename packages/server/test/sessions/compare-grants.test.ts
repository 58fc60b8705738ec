/** What the database says that sessions hold against what this server knows: who may be wrong, and when. */
import { newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { createDispatcher, type Dispatcher } from '../../src/dispatch/dispatcher.js';
import type { GrantedJob } from '../../src/sessions/channel.js';
import { openSession } from '../../src/sessions/open-session.js';
import { createRegistry, type Registry } from '../../src/sessions/registry.js';
import type { Session } from '../../src/sessions/session.js';
import { createMetrics } from '../../src/telemetry/metrics.js';
import { type AnswerHolder, startAnswerHolder } from '../support/answer-holder.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { helloOf, PROOF } from '../support/raw-worker.js';
import { channelOf, sessionOf } from '../support/session.js';

/** No poll comes in between. */
const POLL_MS = 3_600_000;

let bench: LifecycleBench;
let holder: AnswerHolder;
let db: Database;
let dispatcher: Dispatcher;
let registry: Registry;
beforeAll(async () => {
  bench = await createLifecycleBench();
  holder = await startAnswerHolder(String(bench.pool.options.connectionString));
  db = connectDatabase({ url: holder.url, poolSize: 4 });
  const logger = pino({ level: 'silent' });
  registry = createRegistry(logger);
  const { sessions } = registry;
  const deps = {
    sessions,
    db: db.control,
    serverId: SERVER_ID,
    logger,
    pollMs: POLL_MS,
    isPaused: () => false,
    publish() {},
  };
  dispatcher = createDispatcher({ ...deps, metrics: createMetrics() });
  dispatcher.start();
});
afterAll(async () => {
  await dispatcher.stop();
  await db.close();
  await holder.close();
  await bench.close();
});

/** A worker of this server, as its connection would register it; gives what it is sent. */
async function serve(type: string, connection = 1): Promise<{ session: Session; sent: (readonly GrantedJob[])[] }> {
  const hello = helloOf({ types: [type], connection });
  await openSession(bench.db.control, SERVER_ID, hello, 30_000, PROOF);
  const sent: (readonly GrantedJob[])[] = [];
  const session = sessionOf(type, {
    id: hello.sessionId,
    connection,
    channel: channelOf({ assign: (jobs) => void sent.push(jobs) }),
  });
  registry.add(session);
  return { session, sent };
}

test('a grant that its worker was never sent is released', async () => {
  const type = newId();
  const { session } = await serve(type);
  session.window = 0;
  const [id = ''] = await bench.add({ type });
  await bench.claim(1, { types: [type], sessionId: session.id });
  expect(await dispatcher.compareAll()).toBe(1);
  expect(await bench.row(id)).toMatchObject({ state: 'ready', attempt: 0 });
  registry.remove(session);
});

test('a job that a claim is just granting is not taken back, however late its answer comes', async () => {
  const type = newId();
  const { session, sent } = await serve(type);
  const [id = ''] = await bench.add({ type });
  const pass = holder.holdAnswersTo('claim');
  dispatcher.wake();
  await expect.poll(() => bench.row(id)).toMatchObject({ state: 'running', session_id: session.id });
  const compared = dispatcher.compareAll();
  // The comparison must wait for the claim; one that does not has time enough to do harm here.
  await bench.pool.query('select pg_sleep(0.5)');
  expect(await bench.row(id)).toMatchObject({ state: 'running', fence: 1 });
  pass();
  expect(await compared).toBe(0);
  expect(sent).toHaveLength(1);
  expect(await bench.row(id)).toMatchObject({ state: 'running', fence: 1, session_id: session.id });
  registry.remove(session);
});

test('what another server has given a worker that moved there is not taken back by the one it left', async () => {
  const type = newId();
  const { session } = await serve(type, 1);
  session.window = 0;
  const moved = helloOf({ sessionId: session.id, types: [type], connection: 2 });
  await openSession(bench.db.control, newId(), moved, 30_000, PROOF);
  const [id = ''] = await bench.add({ type });
  await bench.claim(1, { types: [type], sessionId: session.id });
  expect(await dispatcher.compareAll()).toBe(0);
  expect(await bench.row(id)).toMatchObject({ state: 'running', fence: 1 });
  registry.remove(session);
});
