/** The checker against runs made by hand: it finds nothing in a good one, and each thing that was planted in a bad one. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newId } from '@drover/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../packages/server/src/db/database.js';
import { openSession } from '../../packages/server/src/dispatch/session-store.js';
import { claimJobs } from '../../packages/server/src/lifecycle/claim.js';
import { completeJobs } from '../../packages/server/src/lifecycle/complete.js';
import { insertJobs } from '../../packages/server/src/lifecycle/enqueue.js';
import { loseGrants } from '../../packages/server/src/lifecycle/lose.js';
import { releaseJobs } from '../../packages/server/src/lifecycle/release.js';
import { helloOf } from '../../packages/server/test/dispatch/raw-worker.js';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { installAudit } from './audit.js';
import { check, type Evidence } from './check.js';
import type { Instance } from './units.js';

const SERVER_ID = newId();
const LEASE_MS = 3000;

let folder: string;
let database: TestDatabase;
let db: Database;
let instances: Instance[];
let now: number;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'drover-check-'));
  for (const name of ['witness', 'logs']) mkdirSync(join(folder, name));
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

/** A worker's process, with its session and its file of the witness. */
async function startWorker(unit: string, previousSessions: string[] = [], holds: Grant[] = []) {
  const pid = 100 + instances.length;
  const key = `${unit}-${pid}`;
  const instance: Instance = {
    ...{ key, unit, role: 'worker', pid, startedAt: now, byItself: false, pauses: [] },
    ...{ exitedAt: undefined, ending: undefined },
  };
  instances.push(instance);
  const sessionId = newId();
  const identity = { sessionId, name: unit, pid, previousSessions, types: ['noop', 'hold'] };
  await openSession(db.control, SERVER_ID, helloOf({ ...identity, holds }), LEASE_MS);
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
    begin: ({ id, attempt }: Grant, type: string) => note('s', `${key}:${id}`, id, attempt, 0, type),
    end: ({ id }: Grant, how = 'ok') => note('e', `${key}:${id}`, how),
    async succeed({ id, fence, attempt }: Grant) {
      const result = JSON.stringify({ execution: `${key}:${id}`, attempt });
      await completeJobs(db.control, SERVER_ID, [{ id, fence, runMs: 1, result }]);
    },
    exit(ending: string) {
      instance.exitedAt = now++;
      instance.ending = ending;
    },
    /** As the SDK does at its start. */
    logNamed(...grants: Grant[]) {
      const message = 'these jobs were started when the last process of this folder died';
      const jobs = grants.map(({ id, fence }) => `${id} ${fence}`);
      writeFileSync(join(folder, 'logs', `${unit}.log`), `${JSON.stringify({ level: 'warn', message, jobs })}\n`);
    },
  };
}

async function add(type: 'noop' | 'hold'): Promise<void> {
  const job = { id: newId(), type, ...(type === 'hold' ? { onLost: 'hold' as const } : {}) };
  await insertJobs(db.bulk, [{ job, payloadText: 'null' }]);
  writeFileSync(join(folder, 'ledger.log'), `A ${job.id} ${type}\n`, { flag: 'a' });
}

async function violated(given: Partial<Evidence> = {}): Promise<{ names: string[]; notes: string }> {
  const evidence: Evidence = {
    ...{ folder, pool: database.pool, units: [], instances, givenUp: [], drained: true, databaseTroubles: [] },
    ...{ leaseMs: LEASE_MS, verdictMs: 7000 },
    ...given,
  };
  const findings = await check(evidence);
  return {
    names: findings.filter((finding) => finding.violated > 0).map(({ name }) => name),
    notes: findings.map(({ note }) => note ?? '').join(' '),
  };
}

/** A held job of a process that was killed between its journal and its handler, up to the word of its successor. */
async function killedBeforeStart() {
  await add('hold');
  const first = await startWorker('worker1');
  const grant = await first.claim('hold');
  first.exit('SIGKILL');
  const next = await startWorker('worker1', [first.sessionId], [grant]);
  await loseGrants(db.control, SERVER_ID, [grant]);
  return { grant, first, next };
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
  expect((await violated()).names).toEqual([]);
});

test('a held job that was killed between journal and handler is accepted, and counted', async () => {
  const { grant, next } = await killedBeforeStart();
  next.logNamed(grant);
  const { names, notes } = await violated();
  expect(names).toEqual([]);
  expect(notes).toContain('1 between journal and handler');
});

test('not if no journal has named it, whatever the database says', async () => {
  await killedBeforeStart();
  expect((await violated()).names).toEqual(['L1']);
});

test('not if the journal had named an earlier grant of it', async () => {
  const { grant, next } = await killedBeforeStart();
  next.logNamed({ ...grant, fence: grant.fence - 1 });
  expect((await violated()).names).toEqual(['L1']);
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
  expect((await violated()).names).toEqual(['S2h']);
});

test('an attempt that its process never began, and another process had begun before, is found', async () => {
  await add('noop');
  const first = await startWorker('worker1');
  const begun = await first.claim('noop');
  first.begin(begun, 'noop');
  first.end(begun, 'abort');
  await releaseJobs(db.control, [begun]);
  const second = await startWorker('worker2');
  const grant = await second.claim('noop');
  expect(grant.attempt).toBe(begun.attempt);
  await loseGrants(db.control, SERVER_ID, [grant]);
  const last = await second.claim('noop');
  second.begin(last, 'noop');
  second.end(last);
  await second.succeed(last);
  expect((await violated()).names).toEqual(['D9']);
});

test('an execution by a process that was not granted the job is found', async () => {
  await add('noop');
  const [first, second] = [await startWorker('worker1'), await startWorker('worker2')];
  const grant = await first.claim('noop');
  first.begin(grant, 'noop');
  first.end(grant, 'abort');
  await releaseJobs(db.control, [grant]);
  const again = await first.claim('noop');
  second.begin(again, 'noop');
  second.end(again);
  await second.succeed(again);
  // by its number alone there would be a grant for each; and it hides that the second was not begun where it should
  expect((await violated()).names).toContain('S3g');
});
