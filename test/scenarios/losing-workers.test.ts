/** Workers that die, freeze and are cut off: when that is detected, what happens to their jobs, and how the workers come back. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@drover/sdk';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { grantKey, type JournalEntry, parseJournal } from '../chaos/evidence/journals.js';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

const LEASE_MS = 2000;
/** A server waits this much longer than the lease: 1 % for clocks that run at different speeds, and a second. */
const GRACE_MS = LEASE_MS / 100 + 1000;
/** Handlers have 7.5 % of it to stop before the process ends: on a busy machine, those of a short one are too few. */
const PATIENT_LEASE_MS = 8000;
/** What a machine that is busy with other tests may take for what takes no time. */
const SLACK_MS = 5000;
/** Longer than any test waits: nothing may happen because it is over. */
const LONG_LEASE = '10m';
/** More than one wait of `until`, so that it is the one to say what was missing. */
const TEST_MS = 60_000;

vi.setConfig({ testTimeout: TEST_MS });

const stage = createStage();
const folder = mkdtempSync(join(tmpdir(), 'drover-journals-'));

afterEach(async () => {
  expect(stage.illegalMoves()).toEqual([]);
  // a worker that is cut off must not find the server of another test
  await stage.killAll();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const startServer = (lease = `${LEASE_MS}ms`, port?: number) =>
  stage.startServer({ flags: { lease }, ...(port === undefined ? {} : { port }) });

/** Milliseconds on the clock of the witness. */
const now = () => Number(process.hrtime.bigint() / 1000n) / 1000;
const starts = (id: string) => stage.witness.events({ id, event: 'start' });
const hasStarted = (id: string, worker: string) =>
  until(`${worker} has started job ${id}`, () => stage.witness.events({ id, worker, event: 'start' })[0]);
const isIn = (client: Client, id: string, state: string) =>
  until(`job ${id} is ${state}`, async () => (await client.job(id).get()).state === state);
const isListedAs = (client: Client, name: string, state: string) =>
  until(`${name} is listed as ${state}`, async () =>
    (await client.workers()).find((worker) => worker.name === name && worker.state === state),
  );

describe('a worker that is cut off from every server', () => {
  test('D5, V6: tells its handlers to stop before its lease is over, registers again later and takes work', async () => {
    const server = await startServer(`${PATIENT_LEASE_MS}ms`);
    const client = stage.client(server.url);
    const worker = await stage.startWorker({ name: 'cut-off', url: server.url, slots: 2, queues: ['cut-off'] });
    const { id } = await client.enqueue('hold', { gate: 'cut-off' }, { queue: 'cut-off' });
    await hasStarted(id, 'cut-off');

    const cutOffAt = now();
    server.kill('SIGSTOP');
    const stopped = await until('its handler is told', () => stage.witness.events({ id, event: 'aborted' })[0]);
    expect(stopped.reason).toBe('lost');
    expect(stopped.at - cutOffAt).toBeLessThan(PATIENT_LEASE_MS + GRACE_MS);
    await until('its handler has ended', () => stage.witness.events({ id, event: 'end' })[0]);
    expect(starts(id)).toHaveLength(1);

    server.kill('SIGCONT');
    await until('the job runs again', () => starts(id).length === 2);
    worker.open('cut-off');
    expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
    expect(worker.hasExited).toBe(false);
    expect(starts(id).map(({ pid }) => pid)).toEqual([worker.pid, worker.pid]);
  });

  test('D5: ends its own process if a handler does not stop, before another worker may start the job', async () => {
    const server = await startServer();
    const client = stage.client(server.url);
    const worker = await stage.startWorker({ name: 'stubborn', url: server.url, slots: 2, queues: ['stubborn'] });
    const { id } = await client.enqueue('stubborn', { gate: 'stubborn' }, { queue: 'stubborn' });
    await hasStarted(id, 'stubborn');

    const cutOffAt = now();
    server.kill('SIGSTOP');
    expect(await worker.exited).toBe('SIGKILL');
    const endedAt = now();
    expect(endedAt - cutOffAt).toBeLessThan(LEASE_MS + GRACE_MS);
    expect(stage.witness.events({ id, event: 'end' })).toEqual([]);

    server.kill('SIGCONT');
    const heir = await stage.startWorker({ name: 'stubborn-heir', url: server.url, slots: 2, queues: ['stubborn'] });
    const again = await hasStarted(id, 'stubborn-heir');
    expect(again.at).toBeGreaterThan(endedAt);
    heir.open('stubborn');
    expect(await client.job(id).result({ timeout: '20s' })).toBe('done all the same');
  });
});

test('D2, P3, P6, H6: a job is reserved as long as its worker beats; one that freezes gets no more, and loses it', async () => {
  const server = await startServer();
  const client = stage.client(server.url);
  const common = { url: server.url, queues: ['reserved'], prefetch: 0 };
  const frozen = await stage.startWorker({ ...common, name: 'frozen', slots: 8 });
  const other = await stage.startWorker({ ...common, name: 'other', slots: 2 });
  const { id } = await client.enqueue('hold', { gate: 'reserved' }, { queue: 'reserved' });
  // the one with more free slots
  await hasStarted(id, 'frozen');
  const beganAt = now();
  await until('two leases have passed', () => now() - beganAt > 2 * LEASE_MS);
  expect(await client.job(id).get()).toMatchObject({ state: 'running', attempt: 1, worker: 'frozen' });

  frozen.kill('SIGSTOP');
  await until('its server has noticed', () => server.log().includes('worker missed beats'));
  const listed = await isListedAs(client, 'frozen', 'unresponsive');
  expect(listed.missedBeats).toBeGreaterThanOrEqual(2);
  const next = await client.enqueue('sum', { a: 1, b: 2 }, { queue: 'reserved' });
  expect(await next.result({ timeout: '20s' })).toEqual({ sum: 3 });
  expect(starts(next.id).map(({ worker }) => worker)).toEqual(['other']);

  await hasStarted(id, 'other');
  await isListedAs(client, 'frozen', 'dead');
  frozen.kill('SIGCONT');
  expect(await frozen.exited).toBe('SIGKILL');
  other.open('reserved');
  expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
  expect((await client.job(id).get()).attempts).toMatchObject([
    { attempt: 1, outcome: 'lost', worker: 'frozen' },
    { attempt: 2, outcome: 'succeeded', worker: 'other' },
  ]);
});

describe('a worker that dies', () => {
  test.each([1000, 3000])('J4, P7: is noticed after the configured silence of %i ms', async (leaseMs) => {
    const server = await startServer(`${leaseMs}ms`);
    const client = stage.client(server.url);
    const name = `silent-${leaseMs}`;
    const worker = await stage.startWorker({ name, url: server.url, queues: [name] });
    await worker.destroy();
    await isListedAs(client, name, 'dead');
    const { rows } = await stage.pool.query(
      'select (extract(epoch from ended_at - beat_at) * 1000)::float8 as ms from drover.session where name = $1',
      [name],
    );
    expect(rows[0].ms).toBeGreaterThanOrEqual(leaseMs);
    expect(rows[0].ms).toBeLessThan(leaseMs + GRACE_MS + SLACK_MS);
  });

  test('D3, D4: the next attempt of its job has the same id and key, and a higher attempt number', async () => {
    const server = await startServer();
    const client = stage.client(server.url);
    const doomed = await stage.startWorker({ name: 'doomed', url: server.url, queues: ['keys'] });
    const { id } = await client.enqueue('keys', { dieInAttempt: 1 }, { queue: 'keys' });
    expect(await doomed.exited).toBe('SIGKILL');
    await stage.startWorker({ name: 'doomed-heir', url: server.url, queues: ['keys'] });
    await client.job(id).result({ timeout: '20s' });
    const given = stage.witness.events({ id, event: 'keys' }).map(({ keys }) => keys);
    const same = { id, idempotencyKey: id };
    expect(given).toEqual([
      { ...same, attempt: 1, fence: 1 },
      { ...same, attempt: 2, fence: 2 },
    ]);
  });
});

describe('J5: a job that must not run again by itself', () => {
  const held = (queue: string) => ({ queue, onLost: 'hold', maxAttempts: 1 }) as const;

  test('is unknown when its worker was killed, and runs again when a person says so', async () => {
    const server = await startServer();
    const client = stage.client(server.url);
    const victim = await stage.startWorker({ name: 'held-victim', url: server.url, queues: ['held'] });
    const { id } = await client.enqueue('hold', { gate: 'held' }, held('held'));
    await hasStarted(id, 'held-victim');
    await victim.destroy();
    const other = await stage.startWorker({ name: 'held-other', url: server.url, queues: ['held'] });
    await isIn(client, id, 'unknown');
    // with a free worker beside it, which runs whatever else comes
    const next = await client.enqueue('sum', { a: 1, b: 1 }, { queue: 'held' });
    await next.result({ timeout: '20s' });
    expect((await client.job(id).get()).state).toBe('unknown');
    expect(starts(id)).toHaveLength(1);

    await client.job(id).retry();
    await hasStarted(id, 'held-other');
    other.open('held');
    expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
    expect(starts(id)).toHaveLength(2);
  });

  test('V6: ends by the outcome of its worker, if that was only frozen', async () => {
    const server = await startServer();
    const client = stage.client(server.url);
    const worker = await stage.startWorker({ name: 'held-frozen', url: server.url, queues: ['late'] });
    const { id } = await client.enqueue('hold', { gate: 'late' }, held('late'));
    await hasStarted(id, 'held-frozen');
    worker.kill('SIGSTOP');
    await isIn(client, id, 'unknown');
    worker.kill('SIGCONT');
    worker.open('late');
    expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
    expect(stage.witness.events({ id }).map(({ event }) => event)).toEqual(['start', 'end']);
    // it is a worker as before
    const next = await client.enqueue('sum', { a: 1, b: 1 }, { queue: 'late' });
    expect(await next.result({ timeout: '20s' })).toEqual({ sum: 2 });
    expect(starts(next.id)[0]?.pid).toBe(worker.pid);
  });

  test('D10: that runs elsewhere by a retry is taken from the worker that still runs it', async () => {
    const server = await startServer();
    const client = stage.client(server.url);
    const worker = await stage.startWorker({ name: 'outdated', url: server.url, queues: ['outdated'] });
    const { id } = await client.enqueue('hold', { gate: 'outdated' }, held('outdated'));
    await hasStarted(id, 'outdated');
    worker.kill('SIGSTOP');
    await isIn(client, id, 'unknown');
    const current = await stage.startWorker({ name: 'current', url: server.url, queues: ['outdated'] });
    await client.job(id).retry();
    await hasStarted(id, 'current');

    worker.kill('SIGCONT');
    const aborted = await until('it is told to stop', () => stage.witness.events({ id, event: 'aborted' })[0]);
    expect(aborted).toMatchObject({ worker: 'outdated', reason: 'lost' });
    expect(await client.job(id).get()).toMatchObject({ state: 'running', worker: 'current' });
    current.open('outdated');
    expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
    expect((await client.job(id).get()).attempts.at(-1)).toMatchObject({ outcome: 'succeeded', worker: 'current' });
  });
});

describe('J6: a worker with a journal that was killed', () => {
  /** What the journal in the folder says of the first grant of a job. */
  function journalOf(journalDir: string, id: string): JournalEntry | undefined {
    const files = readdirSync(journalDir).map((file) => join(journalDir, file));
    return files.map((file) => parseJournal(readFileSync(file, 'utf8')).get(grantKey(id, 1))).find(Boolean);
  }

  test('J3: delivers at its next start what had finished, and says at once what had not', async () => {
    const server = await startServer(LONG_LEASE);
    const client = stage.client(server.url);
    const options = { name: 'journal', url: server.url, queues: ['journal'], journalDir: join(folder, 'journal') };
    const first = await stage.startWorker(options);
    const [done, died] = await client.enqueueMany(
      ['done', 'died'].map((gate) => ({ job: 'hold', payload: { gate }, options: { queue: 'journal' } })),
    );
    if (!done || !died) throw new Error('two jobs were added');
    for (const { id } of [done, died]) await hasStarted(id, 'journal');

    // not frozen: the kernel would keep what is sent to it
    await server.destroy();
    first.open('done');
    await until('its outcome is on the disk', () => journalOf(options.journalDir, done.id)?.outcome === 'succeeded');
    await first.destroy();
    await startServer(LONG_LEASE, server.port);
    expect((await done.get()).state).toBe('running');

    const second = stage.launchWorker(options);
    expect(await done.result({ timeout: '20s' })).toBe('let go');
    expect(starts(done.id)).toHaveLength(1);
    // the lease is not over for minutes
    await until('the other job runs again', () => starts(died.id).length === 2);
    second.open('died');
    expect(await died.result({ timeout: '20s' })).toBe('let go');
    expect((await done.get()).attempts).toMatchObject([{ attempt: 1, outcome: 'succeeded' }]);
    expect((await died.get()).attempts).toMatchObject([
      { attempt: 1, outcome: 'lost' },
      { attempt: 2, outcome: 'succeeded' },
    ]);
  });

  test('J5: settles by it a job that had become unknown', async () => {
    const server = await startServer();
    const client = stage.client(server.url);
    const options = { name: 'settles', url: server.url, queues: ['settles'], journalDir: join(folder, 'settles') };
    const first = await stage.startWorker(options);
    const { id } = await client.enqueue('hold', { gate: 'settles' }, { queue: 'settles', onLost: 'hold' });
    await hasStarted(id, 'settles');
    await server.destroy();
    first.open('settles');
    await until('its outcome is on the disk', () => journalOf(options.journalDir, id)?.outcome === 'succeeded');
    await first.destroy();
    await startServer(undefined, server.port);
    await isIn(client, id, 'unknown');

    stage.launchWorker(options);
    expect(await client.job(id).result({ timeout: '20s' })).toBe('let go');
    expect(starts(id)).toHaveLength(1);
  });
});

test('J6: a journal compacts itself', async () => {
  const server = await startServer();
  const journalDir = join(folder, 'compact');
  await stage.startWorker({ name: 'compact', url: server.url, queues: ['compact'], journalDir });
  const client = stage.client(server.url);
  const sizeMiB = () =>
    readdirSync(journalDir).reduce((sum, file) => sum + statSync(join(journalDir, file)).size, 0) / 1024 ** 2;
  // each result goes through the journal: 20 MiB of them
  for (let round = 0; round < 5; round++) {
    const jobs = Array.from({ length: 16 }, () => ({
      job: 'count',
      payload: 'x'.repeat(1024 ** 2 / 4),
      options: { queue: 'compact' },
    }));
    const handles = await client.enqueueMany(jobs);
    await Promise.all(handles.map((handle) => handle.result({ timeout: '20s' })));
  }
  await until('the journal is small again', () => sizeMiB() < 9);
});

test('J3: a worker finishes its job while its server is dead, and delivers the outcome to the next one', async () => {
  const [dead, next] = [await startServer(LONG_LEASE), await startServer(LONG_LEASE)];
  const worker = await stage.startWorker({ name: 'deliverer', url: [dead.url], queues: ['deliver'] });
  const { id } = await stage.client(next.url).enqueue('hold', { gate: 'deliver' }, { queue: 'deliver' });
  await hasStarted(id, 'deliverer');
  await Promise.all([dead.destroy(), next.destroy()]);
  worker.open('deliver');
  await until('its handler has ended', () => stage.witness.events({ id, event: 'end' })[0]);
  const third = await startServer(LONG_LEASE, next.port);
  expect(await stage.client(third.url).job(id).result({ timeout: '20s' })).toBe('let go');
  expect((await stage.client(third.url).job(id).get()).attempts).toMatchObject([{ attempt: 1, outcome: 'succeeded' }]);
  expect(starts(id)).toHaveLength(1);
});
