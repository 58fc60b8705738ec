/** What a restarted worker takes over from the process that died before it. */
import { type Hello, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { failJobs } from '../../src/lifecycle/fail.js';
import { loseExpiredSessions, loseGrants, loseOrphans } from '../../src/lifecycle/lose.js';
import { promoteJobs } from '../../src/lifecycle/promote.js';
import { releaseJobs } from '../../src/lifecycle/release.js';
import { retryJob } from '../../src/lifecycle/retry.js';
import { snoozeJobs } from '../../src/lifecycle/snooze.js';
import { openSession } from '../../src/sessions/open-session.js';
import { idsOf } from '../support/changes.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { helloOf, PROOF, previously } from '../support/raw-worker.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

const open = (hello: Partial<Hello>) => openSession(bench.db.control, SERVER_ID, helloOf(hello), 30_000, PROOF);

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
  expect(await open({ sessionId: after, previousSessions: previously(before), holds })).toMatchObject({ held: holds });
  expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: after });
});

test('a job to be held that the journal does not name was never started, and uses up no attempt', async () => {
  const before = newId();
  await open({ sessionId: before });
  const job = await heldBy(before, 'hold');
  await open({ previousSessions: previously(before) });
  expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 0, lost_attempts: 0 });
});

test('but if the journal could not be read whole, it may have been started, and is held', async () => {
  const before = newId();
  await open({ sessionId: before });
  const job = await heldBy(before, 'hold');
  await open({ previousSessions: previously(before), isJournalIncomplete: true });
  expect(await bench.row(job.id)).toMatchObject({ state: 'unknown', attempt: 1, lost_attempts: 1 });
});

test('any other may have been started, and counts as lost, so that a job that kills its process comes to its limit', async () => {
  const before = newId();
  await open({ sessionId: before });
  const job = await heldBy(before, 'rerun');
  await open({ previousSessions: previously(before) });
  expect(await bench.row(job.id)).toMatchObject({ state: 'running', attempt: 1 });
  await loseGrants(bench.db.control, SERVER_ID, [job]);
  expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 1, lost_attempts: 1 });
});

describe('a held job whose worker was declared dead', () => {
  async function declaredDead(sessionId: string) {
    await open({ sessionId });
    const job = await heldBy(sessionId, 'hold');
    await bench.pool.query(`update drover.session set expires_at = now() - interval '1 hour' where id = $1`, [
      sessionId,
    ]);
    await bench.pool.query(`update drover.beacon set at = now(), gap_ended_at = now() - interval '1 hour'`);
    const limits = { graceMs: 0, leaseMs: 1000, maxPulseAgeMs: 60_000 };
    await loseExpiredSessions(bench.db.control, SERVER_ID, 100, limits);
    expect(await bench.row(job.id)).toMatchObject({ state: 'unknown', lost_attempts: 1 });
    return { id: job.id, fence: job.fence };
  }
  const untouched = { state: 'ready', attempt: 0, lost_attempts: 0, attempts: [] };

  test('goes back to the queue, and was not lost, when the worker comes back and never got it', async () => {
    const sessionId = newId();
    const grant = await declaredDead(sessionId);
    expect(await open({ sessionId })).toMatchObject({ held: [], changes: [{ id: grant.id, verb: 'release' }] });
    expect(await bench.row(grant.id)).toMatchObject(untouched);
  });

  test('also when it was followed by another process, whose journal does not name it', async () => {
    const before = newId();
    const grant = await declaredDead(before);
    await open({ previousSessions: previously(before) });
    expect(await bench.row(grant.id)).toMatchObject(untouched);
  });

  test('stays unknown once the journal of a dead process has told that it died there', async () => {
    const [before, after] = [newId(), newId()];
    const grant = await declaredDead(before);
    await open({ sessionId: after, previousSessions: previously(before), holds: [grant] });
    // the outcome is acknowledged, so the worker does not name it any more
    await loseGrants(bench.db.control, SERVER_ID, [grant]);
    expect((await open({ sessionId: after }))?.held).toEqual([]);
    await open({ previousSessions: previously(after) });
    expect(await bench.row(grant.id)).toMatchObject({ state: 'unknown', lost_attempts: 1 });
  });
});

describe('a job to be held that was inherited once and is granted again', () => {
  const limits = { graceMs: 0, leaseMs: 1000, maxPulseAgeMs: 60_000 };

  /** Its first process died after the line in its journal; the next one has it. */
  async function inherited() {
    const [before, after] = [newId(), newId()];
    await open({ sessionId: before });
    const { id, fence } = await heldBy(before, 'hold');
    await open({ sessionId: after, previousSessions: previously(before), holds: [{ id, fence }] });
    expect(await bench.row(id)).toMatchObject({ state: 'running', session_id: after, inherited: true });
    const { type } = await bench.row(id);
    return { id, fence, types: [type as string] };
  }
  const died = (id: string, fence: number) => loseGrants(bench.db.control, SERVER_ID, [{ id, fence }]);

  test.each([
    ['handed back', (id: string, fence: number) => releaseJobs(bench.db.control, [{ id, fence }])],
    [
      'retried by hand',
      async (id: string, fence: number) => {
        await died(id, fence);
        await retryJob(bench.db.control, id);
      },
    ],
    [
      'failed and due again',
      (id: string, fence: number) =>
        failJobs(bench.db.control, SERVER_ID, [
          { id, fence, runMs: 1, retryInMs: 0, error: { name: 'Error', message: 'once' } },
        ]),
    ],
    ['snoozed', (id: string, fence: number) => snoozeJobs(bench.db.control, [{ id, fence, inMs: 0 }])],
  ])('belongs to its new process alone after it was %s: one that dies before its start is no loss', async (_, back) => {
    const { id, fence, types } = await inherited();
    await back(id, fence);
    await promoteJobs(bench.db.control, 100);
    const sessionId = newId();
    await open({ sessionId });
    const [again] = await bench.claim(1, { types, sessionId });
    expect(again).toMatchObject({ id, fence: fence + 1 });
    const { attempt, lost_attempts } = await bench.row(id);
    await bench.pool.query(`update drover.session set expires_at = now() - interval '1 hour' where id = $1`, [
      sessionId,
    ]);
    await bench.pool.query(`update drover.beacon set at = now(), gap_ended_at = now() - interval '1 hour'`);
    await loseExpiredSessions(bench.db.control, SERVER_ID, 100, limits);
    expect(await bench.row(id)).toMatchObject({ state: 'unknown' });
    await open({ previousSessions: previously(sessionId) });
    expect(await bench.row(id)).toMatchObject({ state: 'ready', attempt: Number(attempt) - 1, lost_attempts });
  });
});

test('a stranger without the resume key takes nothing over', async () => {
  const before = newId();
  await open({ sessionId: before });
  const job = await heldBy(before, 'hold');
  const stranger = [{ id: before, resumeKey: 's'.repeat(43) }];
  const taking = open({ previousSessions: stranger, holds: [{ id: job.id, fence: job.fence }] });
  await expect(taking).rejects.toMatchObject({ code: 'forbidden' });
  expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: before });
});

describe('a job that was granted to a session which had just ended', () => {
  const repair = async () => {
    const changes = await loseOrphans(bench.db.control, SERVER_ID, 0, 100);
    idsOf(changes);
    return changes;
  };

  async function ended(): Promise<string> {
    const sessionId = newId();
    await open({ sessionId });
    await bench.pool.query(
      `update drover.session set ended_at = now() - interval '1 minute', ending = 'dead' where id = $1`,
      [sessionId],
    );
    return sessionId;
  }

  test.each(['hold', 'rerun'] as const)('was never started (%s), and goes back unharmed', async (onLost) => {
    const job = await heldBy(await ended(), onLost);
    expect(await repair()).toMatchObject([{ id: job.id, verb: 'release', to: 'ready' }]);
    expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 0, lost_attempts: 0, session_id: null });
  });

  test('is held all the same if it was inherited, because then it had been started', async () => {
    const sessionId = await ended();
    const job = await heldBy(sessionId, 'hold');
    await bench.pool.query('update drover.job set inherited = true where id = $1', [job.id]);
    expect(await repair()).toMatchObject([{ id: job.id, verb: 'lose', to: 'unknown' }]);
    expect(await bench.row(job.id)).toMatchObject({ state: 'unknown', session_id: sessionId });
  });

  /** It was granted before the session ended, and the statement that ended the session did not see it. */
  async function grantedBefore(onLost: 'rerun' | 'hold') {
    const job = await heldBy(await ended(), onLost);
    await bench.pool.query(`update drover.job set started_at = now() - interval '2 minutes' where id = $1`, [job.id]);
    return job;
  }

  test('was never started either if it is to be held and was granted just before that', async () => {
    const job = await grantedBefore('hold');
    expect(await repair()).toMatchObject([{ id: job.id, verb: 'release', to: 'ready' }]);
    expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 0 });
  });

  test('counts as lost otherwise', async () => {
    const job = await grantedBefore('rerun');
    expect(await repair()).toMatchObject([{ id: job.id, verb: 'lose', to: 'ready' }]);
    expect(await bench.row(job.id)).toMatchObject({ state: 'ready', attempt: 1, lost_attempts: 1 });
  });

  test('is left to the session if that is coming back', async () => {
    const sessionId = await ended();
    const job = await heldBy(sessionId, 'rerun');
    const returning = await bench.pool.connect();
    await returning.query('begin');
    await returning.query('update drover.session set ended_at = null, ending = null where id = $1', [sessionId]);
    const repaired = repair();
    await bench.untilSomeoneWaits();
    await returning.query('commit');
    returning.release();
    expect(await repaired).toEqual([]);
    expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: sessionId });
  });

  test.each(['hold', 'rerun'] as const)('is left to a successor that is taking it over (%s)', async (onLost) => {
    const job = onLost === 'hold' ? await heldBy(await ended(), onLost) : await grantedBefore(onLost);
    const successor = newId();
    await open({ sessionId: successor });
    const takingOver = await bench.pool.connect();
    await takingOver.query('begin');
    await takingOver.query('update drover.job set session_id = $2, inherited = true where id = $1', [
      job.id,
      successor,
    ]);
    const repaired = repair();
    await bench.untilSomeoneWaits();
    await takingOver.query('commit');
    takingOver.release();
    expect(await repaired).toEqual([]);
    expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: successor });
  });
});
