/** What a restarted worker takes over from the process that died before it. */
import { type Hello, newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSession } from '../../src/dispatch/session-store.js';
import { loseGrants } from '../../src/lifecycle/lose.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { helloOf } from './raw-worker.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

const open = (hello: Partial<Hello>) => openSession(bench.db.control, SERVER_ID, helloOf(hello), 30_000);

async function heldBy(sessionId: string, onLost: 'rerun' | 'hold') {
  const type = `inherited-${newId()}`;
  await bench.add({ type, onLost });
  const [job] = await bench.claim(1, { types: [type], sessionId });
  if (!job) throw new Error('nothing was claimed');
  return job;
}

test('J6 what its journal names goes over to the next process of the same folder', async () => {
  const [before, after] = [newId(), newId()];
  await open({ sessionId: before });
  const job = await heldBy(before, 'rerun');
  const holds = [{ id: job.id, fence: job.fence }];
  expect(await open({ sessionId: after, previousSessions: [before], holds })).toMatchObject({ held: holds });
  expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: after });
});

test('a job to be held that the journal does not name was never started, and uses up no attempt', async () => {
  const before = newId();
  await open({ sessionId: before });
  const job = await heldBy(before, 'hold');
  await open({ previousSessions: [before] });
  expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 0, lost_attempts: 0 });
});

test('any other may have been started, and counts as lost, so that a job that kills its process comes to its limit', async () => {
  const before = newId();
  await open({ sessionId: before });
  const job = await heldBy(before, 'rerun');
  await open({ previousSessions: [before] });
  expect(await bench.row(job.id)).toMatchObject({ state: 'running', attempt: 1 });
  await loseGrants(bench.db.control, SERVER_ID, [job]);
  expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 1, lost_attempts: 1 });
});

test('a stranger on another host takes nothing over', async () => {
  const before = newId();
  await open({ sessionId: before, host: 'here' });
  const job = await heldBy(before, 'hold');
  await open({ previousSessions: [before], host: 'elsewhere', holds: [{ id: job.id, fence: job.fence }] });
  expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: before });
});
