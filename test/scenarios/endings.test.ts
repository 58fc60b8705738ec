/** Every way in which a handler can end, as a client sees it: through a server and two worker processes. */
import { JobFailedError } from '@drover/sdk';
import { beforeAll, describe, expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';
import type { WitnessEvent } from '../support/witness.js';

const stage = createStage();
let server: ServerProcess;

beforeAll(async () => {
  server = await stage.startServer();
  await Promise.all([
    stage.startWorker({ name: 'one', url: server.url, slots: 4, queues: ['default', 'one'] }),
    stage.startWorker({ name: 'two', url: server.url, slots: 4, queues: ['default'] }),
  ]);
});

const client = () => stage.client(server.url);
const starts = (id: string) => stage.witness.events({ id, event: 'start' });

/** Milliseconds from the end of each attempt to the start of the next. */
function pauses(events: WitnessEvent[]): number[] {
  const ends = events.filter(({ event }) => event === 'end');
  return events
    .filter(({ event }) => event === 'start')
    .slice(1)
    .map(({ at }, index) => at - (ends[index]?.at ?? 0));
}

describe('a handler that throws', () => {
  test.each([
    { backoff: { kind: 'fixed', delay: 150 }, expected: [150, 150] },
    { backoff: { kind: 'list', delays: [50, 250] }, expected: [50, 250] },
    { backoff: { kind: 'exponential', base: 60, factor: 4, jitter: 0 }, expected: [60, 240] },
  ] as const)('is run again after its $backoff.kind back-off', async ({ backoff, expected }) => {
    const handle = await client().enqueue(
      'fail',
      { times: 2 },
      { maxAttempts: 3, backoff: structuredClone(backoff) as never },
    );
    expect(await handle.result({ timeout: '20s' })).toEqual({ attempt: 3 });
    const measured = pauses(stage.witness.events({ id: handle.id }));
    expect(measured).toHaveLength(2);
    measured.forEach((pause, index) => {
      expect(pause).toBeGreaterThanOrEqual((expected[index] ?? 0) - 2);
    });
    const { attempts } = await handle.get();
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['failed', 'failed', 'succeeded']);
    expect(attempts[0]?.error).toMatchObject({ name: 'Error', message: 'no luck with attempt 1' });
    expect(attempts[0]?.error?.stack).toContain('jobs.mjs');
  });

  test('fails its job when no attempt is left', async () => {
    const handle = await client().enqueue(
      'fail',
      { times: 9 },
      { maxAttempts: 2, backoff: { kind: 'fixed', delay: 1 } },
    );
    const result = handle.result({ timeout: '20s' });
    await expect(result).rejects.toThrow(JobFailedError);
    await expect(result).rejects.toMatchObject({ error: { message: 'no luck with attempt 2' } });
    expect(starts(handle.id).map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test('PermanentError fails its job at once', async () => {
    const handle = await client().enqueue('permanent', null, { maxAttempts: 5 });
    await expect(handle.result({ timeout: '20s' })).rejects.toMatchObject({
      error: { name: 'PermanentError', message: 'never again', code: 'permanent' },
    });
    expect(starts(handle.id)).toHaveLength(1);
  });

  test('RetryAfter is run again after that time, whatever the back-off says', async () => {
    const options = { maxAttempts: 2, backoff: { kind: 'fixed', delay: '1h' } } as const;
    const handle = await client().enqueue('retry-after', { delay: 200 }, options);
    expect(await handle.result({ timeout: '20s' })).toEqual({ attempt: 2 });
    const [pause] = pauses(stage.witness.events({ id: handle.id }));
    expect(pause).toBeGreaterThanOrEqual(198);
  });
});

test('a handler that snoozes is run later and no attempt is used up', async () => {
  const handle = await client().enqueue('snooze', { delay: 200 }, { maxAttempts: 1, queue: 'one' });
  expect(await handle.result({ timeout: '20s' })).toEqual({ attempt: 1 });
  expect(starts(handle.id).map(({ attempt }) => attempt)).toEqual([1, 1]);
  const [pause] = pauses(stage.witness.events({ id: handle.id }));
  expect(pause).toBeGreaterThanOrEqual(198);
});

test('J9: an attempt that takes longer than its timeout is told to stop, failed and tried again', async () => {
  const options = { timeout: 200, maxAttempts: 2, backoff: { kind: 'fixed', delay: 1 } } as const;
  const handle = await client().enqueue('hold', { gate: 'never' }, options);
  await expect(handle.result({ timeout: '20s' })).rejects.toMatchObject({ error: { code: 'timeout' } });
  const events = stage.witness.events({ id: handle.id });
  expect(events.map(({ event, attempt }) => `${event} ${attempt}`)).toEqual([
    'start 1',
    'aborted 1',
    'end 1',
    'start 2',
    'aborted 2',
    'end 2',
  ]);
  for (const attempt of [1, 2]) {
    const [start, aborted] = events.filter((event) => event.attempt === attempt);
    expect(aborted?.reason).toBe('TimeoutError');
    expect((aborted?.at ?? 0) - (start?.at ?? 0)).toBeGreaterThanOrEqual(198);
  }
  const { attempts } = await handle.get();
  expect(attempts.map(({ error }) => error?.code)).toEqual(['timeout', 'timeout']);
});

test('a payload that does not fit fails clearly, before the handler, and is not tried again', async () => {
  // in SQL, because servers check what they are given by the schema of the type
  const { rows } = await stage.pool.query<{ id: string }>(
    `select drover.enqueue('checked', '{"count": "many"}', '{"maxAttempts": 5}') as id`,
  );
  const handle = client().job(rows[0]?.id ?? '');
  const result = handle.result({ timeout: '20s' });
  await expect(result).rejects.toMatchObject({ error: { code: 'invalid_payload' } });
  await expect(result).rejects.toThrow(/payload\.count.*expected number/);
  expect(starts(handle.id)).toEqual([]);
  expect((await handle.get()).attempt).toBe(1);
});

describe('H5: jobs made by a handler', () => {
  type ChildRow = { state: string; payload: { a: number; b: number } };
  const childrenOf = async (id: string) =>
    (
      await stage.pool.query<ChildRow>(
        `select state, payload from drover.job where parent_id = $1
         union all select state, payload from drover.job_history where parent_id = $1`,
        [id],
      )
    ).rows;

  test('become real with its completion and not before', async () => {
    const worker = await stage.startWorker({ name: 'family', url: server.url, slots: 2, queues: ['family'] });
    const handle = await client().enqueue('parent', { children: [1, 2, 3], gate: 'family' }, { queue: 'family' });
    await until('the parent has started', () => starts(handle.id)[0]);
    expect(await childrenOf(handle.id)).toEqual([]);
    worker.open('family');
    expect(await handle.result({ timeout: '20s' })).toBe(3);
    expect(await childrenOf(handle.id)).toHaveLength(3);
    const done = await until('the children have run', async () => {
      const children = await childrenOf(handle.id);
      return children.every(({ state }) => state === 'succeeded') && children;
    });
    expect(done.map(({ payload }) => payload.a).sort()).toEqual([1, 2, 3]);
  });

  test('of an attempt that fails never come to be', async () => {
    const options = { backoff: { kind: 'fixed', delay: 1 } } as const;
    const handle = await client().enqueue('parent', { children: [1, 2], failures: 1 }, options);
    expect(await handle.result({ timeout: '20s' })).toBe(2);
    // b is the attempt that made the child
    expect((await childrenOf(handle.id)).map(({ payload }) => payload.b)).toEqual([2, 2]);
  });

  test('of an attempt whose worker is killed never come to be', async () => {
    const doomed = await stage.startWorker({ name: 'doomed', url: server.url, slots: 1, queues: ['doom'] });
    const handle = await client().enqueue('parent', { children: [1, 2], dieInAttempt: 1 }, { queue: 'doom' });
    expect(await doomed.exited).toBe('SIGKILL');
    expect(await childrenOf(handle.id)).toEqual([]);
    await stage.startWorker({ name: 'heir', url: server.url, slots: 1, queues: ['doom'] });
    expect(await handle.result({ timeout: '20s' })).toBe(2);
    expect((await childrenOf(handle.id)).map(({ payload }) => payload.b)).toEqual([2, 2]);
    const { attempts } = await handle.get();
    expect(attempts).toMatchObject([
      { attempt: 1, outcome: 'lost', worker: 'doomed', error: { code: 'lost' } },
      { attempt: 2, outcome: 'succeeded', worker: 'heir' },
    ]);
  });
});

test('nothing of this made an illegal move', () => {
  expect(stage.illegalMoves()).toEqual([]);
});
