import { type BulkJob, DroverError } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { Gatherer, namedJobs, type SendJobs } from '../../src/client/gatherer.js';

const jobOf = (id: string): BulkJob => ({ id, head: '"type":"a"', payload: '1' });
const idsOf = (jobs: readonly BulkJob[]) => jobs.map(({ id }) => id);
const NONE: ReadonlySet<number> = new Set();

/** Requests that stay under way until the test answers them. */
function heldRequests() {
  const requests: { ids: string[]; answer: (existed?: number[]) => void; fail: (error: Error) => void }[] = [];
  const send: SendJobs = (jobs) =>
    new Promise((resolve, reject) => {
      requests.push({ ids: idsOf(jobs), answer: (existed = []) => resolve(new Set(existed)), fail: reject });
    });
  return { requests, send };
}

const microtasks = () => new Promise<void>((resolve) => setImmediate(resolve));
const addAll = (gatherer: Gatherer, ids: string[]) => Promise.allSettled(ids.map((id) => gatherer.add(jobOf(id))));
const statuses = (settled: PromiseSettledResult<unknown>[]) => settled.map(({ status }) => status);

describe('Gatherer', () => {
  it('sends the first job at once and gathers what comes while requests are under way', async () => {
    const { requests, send } = heldRequests();
    const gatherer = new Gatherer(send);
    const added = [gatherer.add(jobOf('a'))];
    await microtasks();
    added.push(gatherer.add(jobOf('b')));
    await microtasks();
    added.push(...['c', 'd', 'e'].map((id) => gatherer.add(jobOf(id))));
    await microtasks();
    expect(requests.map(({ ids }) => ids)).toEqual([['a'], ['b']]);

    requests[0]?.answer([0]);
    await microtasks();
    expect(requests[2]?.ids).toEqual(['c', 'd', 'e']);
    requests[1]?.answer();
    requests[2]?.answer([1]);
    expect(await Promise.all(added)).toEqual([false, true, true, false, true]);
    await gatherer.whenIdle();
  });

  it('rejects only the jobs that the server named, and tells which of the others existed', async () => {
    const sent: string[][] = [];
    const gatherer = new Gatherer(async (jobs) => {
      const ids = idsOf(jobs);
      sent.push(ids);
      const issues = ids.flatMap((id, place) => (id.startsWith('bad') ? [{ field: `jobs[${place}].queue` }] : []));
      if (issues.length > 0) throw new DroverError('invalid_request', 'no', { issues });
      return new Set(ids.flatMap((id, place) => (id === 'known' ? [place] : [])));
    });
    const settled = await addAll(gatherer, ['a', 'bad 1', 'known', 'bad 2', 'd']);
    expect(settled).toMatchObject([
      { status: 'fulfilled', value: true },
      { status: 'rejected', reason: { code: 'invalid_request' } },
      { status: 'fulfilled', value: false },
      { status: 'rejected', reason: { code: 'invalid_request' } },
      { status: 'fulfilled', value: true },
    ]);
    expect(sent).toEqual([['a', 'bad 1', 'known', 'bad 2', 'd'], ['a', 'known', 'd'], ['bad 1'], ['bad 2']]);
  });

  it('finds the job at fault by halves when the server names none', async () => {
    const sizes: number[] = [];
    const gatherer = new Gatherer(async (jobs) => {
      sizes.push(jobs.length);
      if (idsOf(jobs).includes('huge')) throw new DroverError('request_too_large', 'too large');
      return NONE;
    });
    const settled = await addAll(gatherer, ['a', 'b', 'huge', 'd']);
    expect(statuses(settled)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
    expect(sizes).toEqual([4, 2, 2, 1, 1]);
  });

  it('rejects every job when the server names all of them', async () => {
    const gatherer = new Gatherer(async (jobs) => {
      const issues = jobs.map((_, place) => ({ field: `jobs[${place}].payload` }));
      throw new DroverError('invalid_request', 'no', { issues });
    });
    expect(statuses(await addAll(gatherer, ['a', 'b', 'c']))).toEqual(['rejected', 'rejected', 'rejected']);
  });

  it('rejects the whole batch when the server could not be reached', async () => {
    const { requests, send } = heldRequests();
    const settled = addAll(new Gatherer(send), ['a', 'b']);
    await microtasks();
    requests[0]?.fail(new DroverError('database_unavailable', 'gone'));
    expect(statuses(await settled)).toEqual(['rejected', 'rejected']);
  });

  it('reads the indexes of jobs out of an error', () => {
    const issues = [{ field: 'jobs[3].queue' }, { field: 'jobs[12]' }, { field: 'jobs' }, { field: 'queue' }];
    expect(namedJobs({ issues })).toEqual(new Set([3, 12]));
    expect(namedJobs(undefined)).toEqual(new Set());
  });
});
