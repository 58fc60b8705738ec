/**
 * The evidence of runs on a real database, built by hand: the rules find nothing in a good run, and every planted
 * fault in a bad one.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newId } from '@drover/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { insertJobs } from '../../../packages/server/src/admission/insert-jobs.js';
import { connectDatabase, type Database } from '../../../packages/server/src/db/database.js';
import { claimJobs } from '../../../packages/server/src/lifecycle/claim.js';
import { completeJobs } from '../../../packages/server/src/lifecycle/complete.js';
import { loseGrants } from '../../../packages/server/src/lifecycle/lose.js';
import { releaseJobs } from '../../../packages/server/src/lifecycle/release.js';
import { toJobToInsert } from '../../../packages/server/src/new-jobs/job-to-insert.js';
import { openSession } from '../../../packages/server/src/sessions/open-session.js';
import { createTestDatabase, type TestDatabase } from '../../../packages/server/test/support/database.js';
import { helloOf, PROOF, previously } from '../../../packages/server/test/support/raw-worker.js';
import { checkRules } from '../rules/index.js';
import type { Instance } from '../system/units.js';
import { installAudit } from './audit.js';
import type { AddedJob } from './ledger.js';
import { readEvidence } from './read-evidence.js';

const SERVER_ID = newId();
const LEASE_MS = 3000;
/** The hash of the JSON `null`. */
const PAYLOAD_HASH = '37a6259cc0c1dae299a7866489dff0bd';

let folder: string;
let database: TestDatabase;
let db: Database;
let instances: Instance[];
let now: number;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'drover-check-'));
  for (const name of ['witness', 'logs', 'journals']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'ledger.log'), '');
  database = await createTestDatabase();
  await installAudit(database.pool);
  db = connectDatabase({ url: database.url, poolSize: 2 });
  instances = [];
  now = 1000;
});
afterEach(async () => {
  await db.close();
  await database.drop();
  rmSync(folder, { recursive: true });
});

type Grant = { id: string; fence: number; attempt: number };

/** A worker process, with its session and its witness file. */
async function startWorker(unit: string, previousSessions: string[] = [], holds: Grant[] = []) {
  const pid = 100 + instances.length;
  const key = `${unit}-${pid}`;
  const instance: Instance = {
    ...{ key, unit, role: 'worker', pid, startedAt: now, byItself: false, isStopOverdue: false, pauses: [] },
    ...{ exitedAt: undefined, ending: undefined },
  };
  instances.push(instance);
  const sessionId = newId();
  const identity = {
    sessionId,
    name: unit,
    pid,
    previousSessions: previously(...previousSessions),
    types: ['noop', 'hold'],
  };
  await openSession(db.control, SERVER_ID, helloOf({ ...identity, holds }), LEASE_MS, PROOF);
  const note = (...words: (string | number)[]) =>
    writeFileSync(join(folder, 'witness', `${key}.log`), `${words.join(' ')} ${now++ * 1000}\n`, { flag: 'a' });
  return {
    sessionId,
    instance,
    async claim(type: string): Promise<Grant> {
      const group = { types: [type], queues: null, slots: [sessionId], ignoresPause: false };
      const [job] = await claimJobs(db.control, [group]);
      if (!job) throw new Error('nothing was claimed');
      return { id: job.id, fence: job.fence, attempt: (JSON.parse(job.assignment) as { attempt: number }).attempt };
    },
    begin: ({ id, attempt, fence }: Grant, type: string) =>
      note('s', `${key}:${id}`, id, attempt, fence, type, PAYLOAD_HASH, '-'),
    end: ({ id }: Grant, how = 'ok') => note('e', `${key}:${id}`, how),
    async succeed({ id, fence }: Grant) {
      const result = JSON.stringify({ execution: `${key}:${id}` });
      await completeJobs(db.control, SERVER_ID, [{ id, fence, runMs: 1, result }]);
    },
    exit(ending: string) {
      instance.exitedAt = now++;
      instance.ending = ending;
    },
  };
}

async function add(type: 'noop' | 'hold'): Promise<void> {
  const job = toJobToInsert({ type, ...(type === 'hold' ? { onLost: 'hold' } : {}) });
  await insertJobs(db.bulk, [{ job }]);
  const entry: AddedJob = {
    ...{ kind: 'job', id: job.id, type, mark: 'acknowledged', via: 'sdk', holds: type === 'hold' },
    ...{ payloadHash: PAYLOAD_HASH, sentAt: now, answeredAt: now },
  };
  writeFileSync(join(folder, 'ledger.log'), `${JSON.stringify(entry)}\n`, { flag: 'a' });
}

async function violated(): Promise<string[]> {
  const evidence = await readEvidence(folder, database.pool, {
    ...{ units: [], instances, verdicts: [], repairs: [], databaseTroubles: [], faults: [], drained: true },
    ...{ recovery: [{ what: 'everything is well', ok: true }], leaseMs: LEASE_MS, verdictMs: 7000 },
  });
  return checkRules(evidence)
    .filter((finding) => finding.violated > 0)
    .map(({ code }) => code);
}

test('a good run is good', async () => {
  await add('noop');
  await add('hold');
  const worker = await startWorker('worker1');
  for (const type of ['noop', 'hold']) {
    const grant = await worker.claim(type);
    worker.begin(grant, type);
    worker.end(grant);
    await worker.succeed(grant);
  }
  worker.exit('code 0');
  expect(await violated()).toEqual([]);
});

test('a held job that was done and is run again is found', async () => {
  await add('hold');
  const first = await startWorker('worker1');
  const done = await first.claim('hold');
  first.begin(done, 'hold');
  first.end(done);
  await releaseJobs(db.control, [done]);
  const second = await startWorker('worker2');
  const again = await second.claim('hold');
  second.begin(again, 'hold');
  second.end(again);
  await second.succeed(again);
  expect(await violated()).toEqual(['S2r', 'S2h']);
});

test('an attempt that its process never began, and another process had begun before, is found', async () => {
  await add('noop');
  const first = await startWorker('worker1');
  const begun = await first.claim('noop');
  first.begin(begun, 'noop');
  first.end(begun, 'abort:shutdown');
  await releaseJobs(db.control, [begun]);
  const second = await startWorker('worker2');
  const grant = await second.claim('noop');
  expect(grant.attempt).toBe(begun.attempt);
  await loseGrants(db.control, SERVER_ID, [grant]);
  const last = await second.claim('noop');
  second.begin(last, 'noop');
  second.end(last);
  await second.succeed(last);
  expect(await violated()).toEqual(['D9']);
});

test('an execution by a process that was not granted the job is found', async () => {
  await add('noop');
  const [first, second] = [await startWorker('worker1'), await startWorker('worker2')];
  const grant = await first.claim('noop');
  first.begin(grant, 'noop');
  first.end(grant, 'abort:shutdown');
  await releaseJobs(db.control, [grant]);
  const again = await first.claim('noop');
  second.begin(again, 'noop');
  second.end(again);
  await second.succeed(again);
  // by its number alone each would have a grant, which would hide that the second did not start where it should
  expect(await violated()).toContain('S3g');
});
