/** Claims that bring many jobs: the next one is under way before these are sent, and nothing is lost between the two. */
import { newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { createDispatcher, type Dispatcher } from '../../src/dispatch/dispatcher.js';
import { openSession } from '../../src/sessions/open-session.js';
import type { Session } from '../../src/sessions/session.js';
import { createMetrics } from '../../src/telemetry/metrics.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { helloOf, PROOF } from '../support/raw-worker.js';
import { channelOf, sessionOf, sessionsOf } from '../support/session.js';

/** More than one claim takes. */
const JOBS = 1500;
const NEVER_MS = 3_600_000;

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

type Stage = {
  dispatcher: Dispatcher;
  session: Session;
  /** In their order: "claim" when one is sent to the database, ids when they are assigned to the worker. */
  events: ('claim' | string[])[];
  type: string;
};

/** A dispatcher with one worker. Every claim runs through `claim`, and every assignment through `assign`. */
async function openStage(
  claim: (stage: Stage, run: () => Promise<never[]>) => Promise<never[]>,
  assign: (stage: Stage) => void = () => {},
): Promise<Stage> {
  const type = newId();
  const hello = helloOf({ types: [type], connection: 1 });
  await openSession(bench.db.control, SERVER_ID, hello, 60_000, PROOF);
  const db: Runner = {
    ...bench.db.control,
    runTexts: (statement, values) => {
      stage.events.push('claim');
      return claim(stage, () => bench.db.control.runTexts(statement, values) as Promise<never[]>);
    },
  };
  const logger = pino({ level: 'silent' });
  const deps = { db, serverId: SERVER_ID, logger, pollMs: NEVER_MS, isPaused: () => false, publish() {} };
  const session = sessionOf(type, {
    id: hello.sessionId,
    slots: JOBS,
    window: JOBS,
    channel: channelOf({
      assign(jobs) {
        assign(stage);
        stage.events.push(jobs.map(({ assignment }) => JSON.parse(assignment).id));
      },
    }),
  });
  const stage: Stage = {
    dispatcher: createDispatcher({ ...deps, sessions: sessionsOf(session), metrics: createMetrics() }),
    session,
    events: [],
    type,
  };
  stage.dispatcher.start();
  return stage;
}

const sentBy = ({ events }: Stage) => events.filter((event) => event !== 'claim').flat();

async function statesOf(type: string): Promise<Record<string, number>> {
  const { rows } = await bench.pool.query(
    `select state || ' ' || fence as state, count(*)::int from drover.job where type = $1 group by 1`,
    [type],
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

test('the next claim is with the database before the jobs of the last are sent', async () => {
  const stage = await openStage((_, run) => run());
  await bench.add(...Array.from({ length: JOBS }, () => ({ type: stage.type })));
  stage.dispatcher.wake();
  await expect.poll(() => sentBy(stage).length, { timeout: 10_000 }).toBe(JOBS);
  await stage.dispatcher.stop();
  expect(stage.events.slice(0, 2)).toEqual(['claim', 'claim']);
  expect(new Set(sentBy(stage)).size).toBe(JOBS);
  expect(stage.session).toMatchObject({ sent: JOBS, reserved: 0 });
  expect(await statesOf(stage.type)).toEqual({ 'running 1': JOBS });
});

test('the first jobs are sent although the answer to the next claim is lost, and those come again', async () => {
  let claims = 0;
  const stage = await openStage(async (_, run) => {
    const rows = await run();
    if (++claims === 2) throw new Error('the answer was lost');
    return rows;
  });
  await bench.add(...Array.from({ length: JOBS }, () => ({ type: stage.type })));
  stage.dispatcher.wake();
  await expect.poll(() => sentBy(stage).length, { timeout: 10_000 }).toBe(JOBS);
  await stage.dispatcher.stop();
  expect(new Set(sentBy(stage)).size).toBe(JOBS);
  expect(stage.session).toMatchObject({ sent: JOBS, reserved: 0 });
  expect(await statesOf(stage.type)).toEqual({ 'running 1': 1000, 'running 2': JOBS - 1000 });
});

test('a next claim that fails at once costs nothing', async () => {
  let claims = 0;
  const stage = await openStage((_, run) => (++claims === 2 ? Promise.reject(new Error('no database')) : run()));
  await bench.add(...Array.from({ length: JOBS }, () => ({ type: stage.type })));
  stage.dispatcher.wake();
  await expect.poll(() => sentBy(stage).length, { timeout: 10_000 }).toBe(JOBS);
  await stage.dispatcher.stop();
  expect(stage.session).toMatchObject({ sent: JOBS, reserved: 0 });
});

test('what was claimed for a worker that has gone in between is handed back, all of it', async () => {
  let claims = 0;
  const stage = await openStage((current, run) => {
    if (++claims === 2) current.session.closed = true;
    return run();
  });
  await bench.add(...Array.from({ length: JOBS }, () => ({ type: stage.type })));
  stage.dispatcher.wake();
  await expect
    .poll(async () => Object.keys(await statesOf(stage.type)).sort(), { timeout: 10_000 })
    .toEqual(['ready 1']);
  await stage.dispatcher.stop();
  expect(sentBy(stage)).toEqual([]);
  expect(stage.session.reserved).toBe(0);
});

test('an assignment that cannot be sent leaves neither of the two claims behind', async () => {
  let assignments = 0;
  const stage = await openStage(
    (_, run) => run(),
    ({ session }) => {
      assignments += 1;
      if (assignments > 1) return;
      session.grants.clear();
      throw new Error('the channel is broken');
    },
  );
  await bench.add(...Array.from({ length: JOBS }, () => ({ type: stage.type })));
  // room for those that count as sent and were not
  stage.session.window = 2 * JOBS;
  stage.dispatcher.wake();
  await expect.poll(() => new Set(sentBy(stage)).size, { timeout: 10_000 }).toBe(JOBS);
  await stage.dispatcher.stop();
  expect(sentBy(stage)).toHaveLength(JOBS);
  expect(stage.session.reserved).toBe(0);
});
