import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { InterruptedError, type StopReason } from '../../../src/worker/attempt.js';
import { jobsOf } from '../../../src/worker/isolation/jobs-of.js';
import { killProcesses } from '../../../src/worker/isolation/process-table.js';
import { isRunning, running, type Started, TestWorker } from './support.js';

const loaded: object = await import('./fixtures/handlers.mjs' as string);
const jobs = jobsOf(loaded, new URL('./fixtures/handlers.mjs', import.meta.url));

let worker: TestWorker;
const start = () => {
  worker = new TestWorker(jobs);
};
const stop = async () => {
  await worker.runner.stop();
  expect(worker.pids).toEqual([]);
};

const interrupt = ({ attempt }: Started, reason: StopReason) =>
  attempt.interrupt(reason, new InterruptedError(reason === 'unconfirmed' ? 'lost' : reason, `it is ${reason}`));

describe('an isolated handler', () => {
  beforeAll(start);
  afterAll(stop);

  it('gets the same context as one in the worker', async () => {
    const { attempt, outcome } = worker.start('context', { at: '2030-01-01' }, { attempt: 3, queue: 'mail' });
    const { id } = attempt.assignment;
    const ended = await outcome;
    expect(ended).toMatchObject({ kind: 'succeeded', id, fence: 1, runMs: expect.any(Number) });
    const { result, children } = ended as { result: string; children: { id: string }[] };
    expect(JSON.parse(result)).toEqual({
      isDate: true,
      ...{ id, type: 'context', queue: 'mail', attempt: 3, maxAttempts: 10, fence: 1, idempotencyKey: id },
      child: { id: children[0]?.id },
      aborted: false,
    });
    expect(children).toMatchObject([{ type: 'child', payload: { of: id } }]);
    expect(worker.progress).toEqual(['{"half":true}']);
    expect(await worker.line('hello')).toMatchObject({ jobId: id, attempt: 3, error: { message: 'shown' } });
  });

  it.each([
    ['error', { kind: 'failed', retryInMs: expect.any(Number), error: { name: 'TypeError', message: 'broken' } }],
    ['permanent', { kind: 'failed', error: { code: 'permanent', message: 'never again' } }],
    ['retry-after', { kind: 'failed', retryInMs: 120_000 }],
    ['snooze', { kind: 'snoozed', inMs: 300_000 }],
    ['return-snooze', { kind: 'snoozed', inMs: 300_000 }],
    ['bigint', { kind: 'failed', error: { code: 'invalid_result' } }],
    ['cycle', { kind: 'failed', error: { code: 'invalid_result', message: expect.stringContaining('circular') } }],
  ])('that ends with %s is reported as in the worker', async (how, expected) => {
    expect(await worker.run('throwing', how)).toMatchObject(expected);
  });

  it('reports where its error was thrown', async () => {
    const stack = expect.stringMatching(/handlers\.mjs.*Caused by: Error: inner/s);
    expect(await worker.run('throwing', 'error')).toMatchObject({ error: { stack } });
  });

  it('has its payload and its result checked', async () => {
    expect(await worker.run('context', { at: 'no date' })).toMatchObject({ error: { code: 'invalid_payload' } });
    expect(await worker.run('wrong-result')).toMatchObject({ error: { code: 'invalid_result' } });
  });

  it('may use the channel for itself without being believed', async () => {
    expect(await worker.run('impostor')).toMatchObject({ kind: 'succeeded', result: '"mine"' });
  });
});

describe('an interrupted handler', () => {
  beforeEach(start);
  afterEach(stop);

  it('is handed back if the lease is over when its process is ready, before the worker has heard of it', async () => {
    worker.mayStart = false;
    expect(await worker.run('obedient')).toMatchObject({ kind: 'released' });
  });

  it('is handed back if its lease is in doubt while its process is still starting', async () => {
    const started = worker.start('obedient');
    interrupt(started, 'unconfirmed');
    expect(await started.outcome).toMatchObject({ kind: 'released' });
  });

  it.each([
    ['cancelled', { kind: 'cancelled' }],
    ['expired', { kind: 'failed', error: { code: 'expired' } }],
    ['shutdown', { kind: 'released', runMs: expect.any(Number) }],
    ['lost', undefined],
  ] as const)('hears that it is %s and may stop by itself; its process is not used again', async (reason, expected) => {
    const started = worker.start('obedient');
    const { pid } = await worker.line('running');
    interrupt(started, reason);
    expect(await worker.line('aborted')).toMatchObject({ name: 'AbortError', code: reason });
    const outcome = await started.outcome;
    if (expected === undefined) expect(outcome).toBeUndefined();
    else expect(outcome).toMatchObject(expected);
    expect(isRunning(pid as number)).toBe(false);
  });

  it('hears of its timeout', async () => {
    // Ready before the clock runs: a start of Node is no part of the attempt's time.
    const outcome = await worker.run('obedient', null, { options: { timeout: 30 } });
    expect(await worker.line('aborted')).toMatchObject({ name: 'TimeoutError' });
    expect(outcome).toMatchObject({ kind: 'failed', retryInMs: expect.any(Number), error: { code: 'timeout' } });
  });

  it.each([
    ['cancelled', { kind: 'cancelled' }],
    ['lost', undefined],
  ] as const)('that is %s and stuck is killed with everything it started, then settles', async (reason, expected) => {
    const started = worker.start('stuck');
    const fields = await worker.line('running');
    expect(running(fields)).toHaveLength(3);
    interrupt(started, reason);
    const outcome = await started.outcome;
    expect(running(fields)).toEqual([]);
    if (expected === undefined) expect(outcome).toBeUndefined();
    else expect(outcome).toMatchObject(expected);
  });

  it('that loops past its timeout costs its own job alone', async () => {
    const stuck = worker.start('stuck', null, { options: { timeout: 10 } });
    const fields = await worker.line('running');
    expect(await worker.run('echo', 'meanwhile')).toMatchObject({ kind: 'succeeded', result: '"meanwhile"' });
    expect(await stuck.outcome).toMatchObject({ error: { code: 'timeout', stack: expect.stringContaining('killed') } });
    expect(running(fields)).toEqual([]);
  });

  it('is killed before it began if its process is still starting', async () => {
    const started = worker.start('echo');
    interrupt(started, 'cancelled');
    expect(await started.outcome).toMatchObject({ kind: 'cancelled' });
    expect(worker.pids).toEqual([]);
    await worker.run('echo');
    const [idle] = worker.pids;
    const again = worker.start('echo');
    interrupt(again, 'cancelled');
    expect(await again.outcome).toMatchObject({ kind: 'cancelled' });
    expect(isRunning(idle as number)).toBe(false);
  });
});

describe('a process that ends before its handler', () => {
  beforeEach(start);
  afterEach(stop);

  it.each([
    ['exit', 'crashed', /exited with code 3 .*the last words/s],
    ['exit-0', 'crashed', /exited with code 0 before its handler ended/],
    ['suicide', 'crashed', /killed by SIGKILL/],
    ['uncaught', 'crashed', /exited with code 1.*from nowhere/s],
    ['buffer-hog', 'memory_limit', /used \d+ MiB; its limit is 160 MiB/],
    ['heap-hog', 'memory_limit', /used \d+ MiB; its limit|out of JavaScript heap/],
    ['other-hog', 'memory_limit', /used \d+ MiB; its limit is 160 MiB/],
  ])('by %s fails its attempt as %s, to be tried again', async (type, code, message) => {
    const outcome = await worker.run(type);
    expect(outcome).toMatchObject({ kind: 'failed', retryInMs: expect.any(Number), error: { code } });
    expect((outcome as { error: { message: string } }).error.message).toMatch(message);
    expect(worker.pids).toEqual([]);
  });

  it('is not used again', async () => {
    await worker.run('exit');
    expect(await worker.run('echo', 1)).toMatchObject({ result: '1' });
  });
});

describe('output', () => {
  beforeEach(start);
  afterEach(stop);

  it('of 50 MB does not block the worker, and its beginning and end are kept', async () => {
    const bytes = 50_000_000;
    expect(await worker.run('chatty', { bytes })).toMatchObject({ kind: 'succeeded' });
    const { stdout } = (await worker.line('isolated handler wrote output')) as { stdout: string };
    expect(stdout.length).toBeLessThan(66 * 1024);
    expect(stdout).toMatch(/^first\n/);
    expect(stdout).toMatch(/… \d+ bytes dropped …/);
  });
});

describe('processes', () => {
  beforeEach(start);
  afterEach(stop);

  const pidOf = async (type: string) => Number(((await worker.run(type)) as { result: string }).result);

  it('are used again for jobs of the same type', async () => {
    const first = await pidOf('pid');
    expect([await pidOf('pid'), await pidOf('pid')]).toEqual([first, first]);
    expect(worker.pids).toEqual([first]);
  });

  it('make a job cost a message instead of a start of Node', async () => {
    const timeOf = async (work: () => Promise<unknown>) => {
      const startedAt = performance.now();
      await work();
      return performance.now() - startedAt;
    };
    const coldMs = await timeOf(() => worker.run('echo', 1));
    const warmMs: number[] = [];
    for (let n = 0; n < 101; n++) warmMs.push(await timeOf(() => worker.run('echo', n)));
    const medianMs = warmMs.sort((a, b) => a - b)[50] as number;
    // Measured: 0.3 ms against 300 to 1000 ms on a busy machine of two cores.
    expect(medianMs).toBeLessThan(coldMs / 10);
  });

  it('end after the number of jobs that the type allows', async () => {
    const pids = [await pidOf('pid-twice'), await pidOf('pid-twice'), await pidOf('pid-twice')];
    expect(pids[1]).toBe(pids[0]);
    expect(pids[2]).not.toBe(pids[0]);
    expect(await pidOf('pid-once')).not.toBe(await pidOf('pid-once'));
    expect(worker.pids).toEqual([pids[2]]);
  });

  it('are never more than there are slots', async () => {
    worker = new TestWorker(jobs, 2);
    const most: number[] = [];
    const types = ['pid', 'echo', 'throwing'];
    const inTurn = async (offset: number) => {
      for (let n = 0; n < 4; n++) {
        await worker.run(types[(n + offset) % types.length] as string);
        most.push(worker.pids.length);
      }
    };
    await Promise.all([inTurn(0), inTurn(1)]);
    expect(Math.max(...most)).toBe(2);
  });

  it('end with what their job has left running', async () => {
    const outcome = await worker.run('litter');
    const { pids } = JSON.parse((outcome as { result: string }).result);
    expect(running({ pids })).toEqual([]);
  });

  it('end when the worker stops, idle or busy, with everything they started', async () => {
    await worker.run('echo');
    const busy = worker.start('stuck');
    const fields = await worker.line('running');
    const { pids } = worker;
    expect(pids).toHaveLength(2);
    await worker.runner.stop();
    expect([...pids.filter(isRunning), ...running(fields)]).toEqual([]);
    expect(await busy.outcome).toMatchObject({ kind: 'failed', error: { code: 'crashed' } });
    expect(await worker.run('echo')).toMatchObject({ error: { message: 'the worker has stopped' } });
  });

  it('can be chosen and killed hard', async () => {
    const rerun = worker.start('waiting');
    const first = await worker.line('running');
    const hold = worker.start('waiting', null, { options: { onLost: 'hold' } });
    const second = await worker.line('running');
    expect(worker.runner.isolated?.killRunning(({ assignment }) => assignment.options?.onLost !== 'hold')).toBe(1);
    expect(await rerun.outcome).toMatchObject({ error: { code: 'crashed' } });
    expect([running(first).length, running(second).length]).toEqual([0, 2]);
    worker.runner.isolated?.killAll();
    expect(await hold.outcome).toMatchObject({ error: { code: 'crashed' } });
    expect(running(second)).toEqual([]);
  });

  it('can be killed from another thread by what they do', async () => {
    const hold = worker.start('waiting', null, { options: { onLost: 'hold' } });
    const fields = await worker.line('running');
    const table = worker.runner.isolated?.processTable;
    if (table === undefined) throw new Error('there is no table');
    expect(killProcesses(table, 'rerun')).toBe(0);
    expect(killProcesses(structuredClone(table), 'hold')).toBe(1);
    expect(await hold.outcome).toMatchObject({ error: { message: expect.stringContaining('SIGKILL') } });
    expect(running(fields)).toEqual([]);
    expect(killProcesses(table)).toBe(0);
  });
});
