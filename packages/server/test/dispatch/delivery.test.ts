/** What is sent may be lost, repeated or late, and connections may end anywhere: each job is still run once. */
import { type Assignment, type Grant, newId } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { claimJobs } from '../../src/lifecycle/claim.js';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { connect, helloOf, type RawWorker, register, succeeded } from '../support/raw-worker.js';

const BEAT_MS = 200;

let bench: ApiBench;
let db: Database;
beforeAll(async () => {
  bench = await createApiBench({ beatMs: BEAT_MS, leaseMs: 20_000, pollMs: 50 });
  db = connectDatabase({ url: bench.database.url, poolSize: 2 });
});
afterAll(async () => {
  await db.close();
  await bench.close();
});

async function add(...jobs: object[]): Promise<string[]> {
  const { status, body } = await bench.call('/api/v1/jobs/batch', { method: 'POST', body: { jobs } });
  expect(status).toBe(201);
  return (body as { items: { id: string }[] }).items.map(({ id }) => id);
}

type Row = { id: string; state: string; fence: number; attempt: number; lost_attempts: number };

async function rowsOf(type: string): Promise<Row[]> {
  const columns = 'id, state, fence, attempt, lost_attempts';
  const { rows } = await bench.database.pool.query<Row>(
    `select ${columns} from drover.job where type = $1 union all select ${columns} from drover.job_history where type = $1`,
    [type],
  );
  return rows;
}

async function rowOf(type: string): Promise<Row> {
  const rows = await rowsOf(type);
  expect(rows).toHaveLength(1);
  return rows[0] as Row;
}

/** Assignments until there are `count`. */
async function take(worker: RawWorker, count: number): Promise<Assignment[]> {
  const jobs: Assignment[] = [];
  while (jobs.length < count) jobs.push(...(await worker.next('assign')).jobs);
  return jobs;
}

let beats = 0;

/** Everything that the server had to say before now has come. */
async function inStep(worker: RawWorker): Promise<void> {
  beats += 1;
  worker.send({ kind: 'beat', beat: beats, running: 0, received: 0 });
  await worker.next('beat');
}

const grantOf = ({ id, fence }: Grant): Grant => ({ id, fence });

describe('the window', () => {
  test('bounds what a worker is sent on a connection, and repeating or lowering it changes nothing', async () => {
    const type = `t-${newId()}`;
    const { worker } = await register(bench.port, { types: [type], window: 2 });
    await add({ type }, { type }, { type }, { type });
    await take(worker, 2);
    for (const window of [2, 1, 0, 2]) worker.send({ kind: 'offer', window });
    await inStep(worker);
    worker.send({ kind: 'offer', window: 3 });
    worker.send({ kind: 'offer', window: 3 });
    expect(await take(worker, 1)).toHaveLength(1);
    await inStep(worker);
    expect(worker.waiting('assign')).toEqual([]);
    worker.terminate();
  });

  test('is closed by a drain', async () => {
    const type = `t-${newId()}`;
    const { worker } = await register(bench.port, { types: [type], window: 5 });
    worker.send({ kind: 'drain' });
    await inStep(worker);
    await add({ type });
    worker.send({ kind: 'offer', window: 50 });
    const { worker: other } = await register(bench.port, { types: [type], window: 1 });
    await take(other, 1);
    expect(worker.waiting('assign')).toEqual([]);
    worker.terminate();
    other.terminate();
  });
});

describe('V1: the same id twice', () => {
  test('in one batch goes to one worker', async () => {
    const type = `t-${newId()}`;
    const workers = await Promise.all([
      register(bench.port, { types: [type] }),
      register(bench.port, { types: [type] }),
    ]);
    await Promise.all(workers.map(({ worker }) => inStep(worker)));
    // the group's lanes were found empty, so jobs are pushed with their insert
    const id = newId();
    const { body } = await bench.call('/api/v1/jobs/batch', {
      method: 'POST',
      body: { jobs: [{ type, id }, { type, id }, { type }] },
    });
    await expectEachOnce(
      workers.map(({ worker }) => worker),
      2,
    );
    expect(body).toMatchObject({ items: [{ id, created: true }, { id, created: false }, { created: true }] });
  });

  test('in simultaneous requests goes to one worker', async () => {
    const type = `t-${newId()}`;
    const workers = await Promise.all([
      register(bench.port, { types: [type] }),
      register(bench.port, { types: [type] }),
    ]);
    const id = newId();
    const requests = Array.from({ length: 20 }, () =>
      bench.call('/api/v1/jobs', { method: 'POST', body: { type, id } }),
    );
    const answers = await Promise.all(requests);
    expect(answers.filter(({ body }) => (body as { created: boolean }).created)).toHaveLength(1);
    await expectEachOnce(
      workers.map(({ worker }) => worker),
      1,
    );
  });

  async function expectEachOnce(workers: RawWorker[], count: number): Promise<void> {
    const given: string[] = [];
    const look = () => {
      for (const worker of workers) {
        for (const { jobs } of worker.waiting('assign'))
          for (const { id } of jobs) if (!given.includes(id)) given.push(id);
      }
      return given.length;
    };
    await expect.poll(look, { timeout: 10_000 }).toBe(count);
    await Promise.all(workers.map(inStep));
    const all = workers.flatMap((worker) => worker.waiting('assign').flatMap(({ jobs }) => jobs.map(({ id }) => id)));
    expect(all.sort()).toEqual(given.sort());
    for (const worker of workers) worker.terminate();
  }
});

describe('a connection that ends', () => {
  test('D9: what was granted and never arrived is released, and no attempt is used up', async () => {
    const type = `t-${newId()}`;
    const sessionId = newId();
    const { worker: first } = await register(bench.port, { sessionId, types: [type], window: 0 });
    first.terminate();
    await first.closed;
    await add({ type });
    // a server that dies between this commit and the delivery
    const [lost] = await claimJobs(db.control, [
      { types: [type], queues: null, slots: [sessionId], ignoresPause: false },
    ]);
    expect(await rowOf(type)).toMatchObject({ state: 'running', attempt: 1, fence: 1 });
    const { worker, welcome } = await register(bench.port, { sessionId, types: [type], window: 1 });
    expect(welcome.dropped).toEqual([]);
    const [job] = await take(worker, 1);
    expect(job).toMatchObject({ id: lost?.id, attempt: 1, fence: 2 });
    worker.send({ kind: 'outcomes', items: [succeeded({ id: lost?.id ?? '', fence: 1 }), succeeded(job as Grant)] });
    const { id = '' } = lost ?? {};
    expect(await worker.next('ack')).toMatchObject({ items: [{ id, fence: 2 }], stale: [{ id, fence: 1 }] });
    expect(await rowOf(type)).toMatchObject({ state: 'succeeded', attempt: 1, lost_attempts: 0 });
    worker.terminate();
  });

  test('D9, D10: what a connected worker was never sent is released', async () => {
    const type = `t-${newId()}`;
    const sessionId = newId();
    const { worker } = await register(bench.port, { sessionId, types: [type], window: 0 });
    await add({ type });
    await claimJobs(db.control, [{ types: [type], queues: null, slots: [sessionId], ignoresPause: false }]);
    await expect.poll(() => rowOf(type), { timeout: 10_000 }).toMatchObject({ state: 'ready', attempt: 0, fence: 1 });
    worker.terminate();
  });

  test('takes nothing from the worker: what it holds is still its own on the next one', async () => {
    const type = `t-${newId()}`;
    const { worker: first, hello } = await register(bench.port, { types: [type], window: 2 });
    await add({ type }, { type });
    const [kept, done] = (await take(first, 2)).map(grantOf) as [Grant, Grant];
    first.terminate();
    await first.closed;
    const unknown = { id: newId(), fence: 3 };
    const { worker, welcome } = await register(bench.port, { ...hello, holds: [kept, done, unknown] });
    expect(welcome.dropped).toEqual([unknown]);
    worker.send({ kind: 'outcomes', items: [succeeded(done), succeeded(kept)] });
    expect((await worker.next('ack')).items).toHaveLength(2);
    expect((await rowsOf(type)).map(({ state, attempt }) => `${state} ${attempt}`)).toEqual([
      'succeeded 1',
      'succeeded 1',
    ]);
    worker.terminate();
  });

  test.each([
    ['newest first', [2, 1]],
    ['oldest first', [1, 2]],
  ])('of a worker with two grants of one job leaves it the newer one (%s)', async (_, fences) => {
    const type = `t-${newId()}`;
    const { worker: first, hello } = await register(bench.port, { types: [type], window: 2 });
    await add({ type });
    const [old] = (await take(first, 1)).map(grantOf) as [Grant];
    first.send({ kind: 'outcomes', items: [{ kind: 'released', ...old }] });
    expect(await take(first, 1)).toMatchObject([{ id: old.id, fence: 2 }]);
    first.terminate();
    await first.closed;
    // the acknowledgement of the older one may have been lost
    const holds = fences.map((fence) => ({ id: old.id, fence }));
    const { worker, welcome } = await register(bench.port, { ...hello, holds });
    expect(welcome.dropped).toEqual([old]);
    expect(await rowOf(type)).toMatchObject({ state: 'running', fence: 2, attempt: 1 });
    worker.terminate();
  });

  test('for good hands back everything, and no attempt is used up', async () => {
    const type = `t-${newId()}`;
    const { worker } = await register(bench.port, { types: [type], window: 3 });
    await add({ type }, { type }, { type });
    const [first] = (await take(worker, 3)).map(grantOf) as [Grant];
    worker.send({ kind: 'outcomes', items: [succeeded(first)] });
    await worker.next('ack');
    worker.send({ kind: 'bye' });
    expect(await worker.closed).toBe(1008);
    const rows = (await rowsOf(type)).map(({ state, attempt }) => `${state} ${attempt}`);
    expect(rows.sort()).toEqual(['ready 0', 'ready 0', 'succeeded 1']);
  });
});

describe('a second connection of the same session', () => {
  test('replaces the first', async () => {
    const type = `t-${newId()}`;
    const { worker: first, hello } = await register(bench.port, { types: [type], window: 3 });
    await add({ type });
    const [held] = (await take(first, 1)).map(grantOf) as [Grant];
    const { worker: second, welcome } = await register(bench.port, { ...hello, holds: [held] });
    expect(await first.closed).toBe(1006);
    expect(welcome.dropped).toEqual([]);
    await add({ type });
    const [next] = (await take(second, 1)).map(grantOf) as [Grant];
    second.send({ kind: 'outcomes', items: [succeeded(held), succeeded(next)] });
    expect((await second.next('ack')).items).toEqual([held, next]);
    second.terminate();
  });

  test('that says hello at the same time leaves exactly one of the two', async () => {
    const type = `t-${newId()}`;
    const hello = helloOf({ types: [type], window: 3 });
    const [one, other] = await Promise.all([connect({ port: bench.port }), connect({ port: bench.port })]);
    one.send(hello);
    other.send(hello);
    const loser = await Promise.race([one.closed.then(() => one), other.closed.then(() => other)]);
    const winner = loser === one ? other : one;
    await add({ type }, { type });
    const jobs = await take(winner, 2);
    winner.send({ kind: 'outcomes', items: jobs.map((job) => succeeded(job)) });
    await winner.next('ack');
    expect((await rowsOf(type)).map(({ state }) => state)).toEqual(['succeeded', 'succeeded']);
    winner.terminate();
  });
});

describe('J2: whatever is lost, repeated or late', () => {
  const JOBS = 8;
  /** Measured: 350 ms per run, so this takes a quarter of the limit. Fewer runs within the limit are a failure. */
  const RUNS = 40;
  const LIMIT_MS = 55_000;
  /** What happens to a frame on its way. `cut` ends the connection instead, with all that is under way. */
  const fate = fc.constantFrom('arrives', 'arrives', 'is lost', 'comes twice', 'comes late', 'cut');
  type Fate = 'arrives' | 'is lost' | 'comes twice' | 'comes late' | 'cut';

  /** A worker on a bad line: it does its part of the protocol and nothing more. Resolves when all are finished. */
  async function workOnBadLine(type: string, fates: Fate[]): Promise<void> {
    const sessionId = newId();
    const unacknowledged = new Map<string, Grant>();
    const late: object[] = [];
    const nextFate = () => fates.shift() ?? 'arrives';
    const isDone = async () => (await rowsOf(type)).every(({ state }) => state === 'succeeded');

    while (!(await isDone())) {
      const holds = [...unacknowledged.values()];
      const { worker, welcome } = await register(bench.port, { sessionId, types: [type], window: JOBS, holds });
      for (const { id } of welcome.dropped) unacknowledged.delete(id);
      const send = (frame: object) => {
        const what = nextFate();
        if (what === 'cut') worker.terminate();
        else if (what === 'comes late') late.push(frame);
        else if (what !== 'is lost') for (const _ of what === 'comes twice' ? [1, 2] : [1]) worker.send(frame);
        if (worker.isOpen && what === 'arrives') for (const old of late.splice(0)) worker.send(old);
      };
      if (holds.length > 0)
        send({ kind: 'outcomes', items: [...unacknowledged.values()].map((grant) => succeeded(grant)) });
      // one connection: until the line is cut or nothing has come for a while
      let quiet = 0;
      while (worker.isOpen && quiet < 3 && !(await isDone())) {
        const assigned = worker.waiting('assign').length > 0 ? await worker.next('assign') : undefined;
        for (const { items, stale } of worker.waiting('ack'))
          for (const { id } of [...items, ...stale]) unacknowledged.delete(id);
        quiet = assigned ? 0 : quiet + 1;
        // an assignment that is lost on its way is never heard of again on this connection
        if (assigned && nextFate() !== 'is lost') {
          const grants = assigned.jobs.map(grantOf);
          for (const grant of grants) unacknowledged.set(grant.id, grant);
          send({ kind: 'progress', items: grants.map((grant) => ({ ...grant, value: '1' })) });
          if (worker.isOpen) send({ kind: 'outcomes', items: grants.map((grant) => succeeded(grant)) });
        }
        if (worker.isOpen) await inStep(worker).catch(() => {});
      }
      worker.terminate();
      await worker.closed;
    }
  }

  test('each job is finished once, in its first attempt', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fate, { minLength: 5, maxLength: 30 }), async (fates) => {
        const type = `t-${newId()}`;
        const ids = await add(...Array.from({ length: JOBS }, () => ({ type })));
        await workOnBadLine(type, [...fates]);
        const rows = await rowsOf(type);
        expect(rows.map(({ id }) => id).sort()).toEqual(ids.sort());
        for (const row of rows) expect(row).toMatchObject({ state: 'succeeded', attempt: 1, lost_attempts: 0 });
      }),
      {
        ...{ seed: 20_261_116, numRuns: RUNS, endOnFailure: true },
        ...{ interruptAfterTimeLimit: LIMIT_MS, markInterruptAsFailure: true },
      },
    );
  }, 60_000);
});
