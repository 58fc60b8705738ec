import { DroverError, type Enqueued } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { Gatherer, namedJobs } from '../../src/client/gatherer.js';

/** Requests that stay under way until the test answers them. */
function heldRequests() {
  const requests: { jobs: readonly string[]; answer: () => void; fail: (error: Error) => void }[] = [];
  const send = (jobs: readonly string[]) =>
    new Promise<readonly Enqueued[]>((resolve, reject) => {
      requests.push({ jobs, answer: () => resolve(jobs.map((id) => ({ id, created: true }))), fail: reject });
    });
  return { requests, send };
}

const microtasks = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('Gatherer', () => {
  it('sends the first job at once and gathers what comes while requests are under way', async () => {
    const { requests, send } = heldRequests();
    const gatherer = new Gatherer(send);
    const added = [gatherer.add('a', true)];
    await microtasks();
    added.push(gatherer.add('b', true));
    await microtasks();
    added.push(gatherer.add('c', true), gatherer.add('d', true), gatherer.add('e', true));
    await microtasks();
    expect(requests.map(({ jobs }) => jobs)).toEqual([['a'], ['b']]);

    requests[0]?.answer();
    await microtasks();
    expect(requests[2]?.jobs).toEqual(['c', 'd', 'e']);
    requests[1]?.answer();
    requests[2]?.answer();
    const ids = (await Promise.all(added)).map(({ id }) => id);
    expect(ids).toEqual(['a', 'b', 'c', 'd', 'e']);
    await gatherer.whenIdle();
  });

  it('rejects only the job the server named', async () => {
    const gatherer = new Gatherer(async (jobs) => {
      const bad = jobs.indexOf('bad');
      if (bad === -1) return jobs.map((id) => ({ id, created: true }));
      const field = jobs.length === 1 ? 'queue' : `jobs[${bad}].queue`;
      throw new DroverError('invalid_request', 'no', { issues: [{ field, message: 'no' }] });
    });
    const settled = await Promise.allSettled(['a', 'bad', 'c', 'd'].map((text) => gatherer.add(text, true)));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  });

  it('finds the job at fault by halves when the server names none', async () => {
    const sizes: number[] = [];
    const gatherer = new Gatherer(async (jobs) => {
      sizes.push(jobs.length);
      if (jobs.includes('huge')) throw new DroverError('request_too_large', 'too large');
      return jobs.map((id) => ({ id, created: true }));
    });
    const settled = await Promise.allSettled(['a', 'b', 'huge', 'd'].map((text) => gatherer.add(text, true)));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
    expect(sizes).toEqual([4, 2, 2, 1, 1]);
  });

  it('calls a job new only if its id was made here and it has not been sent before', async () => {
    const sent: [string, boolean][] = [];
    const gatherer = new Gatherer(async (jobs, newJobs) => {
      sent.push([jobs.join(' '), newJobs !== undefined]);
      if (jobs.length > 1) throw new DroverError('invalid_request', 'no');
      return jobs.map((id) => ({ id, created: true }));
    });
    await gatherer.add('alone', true);
    await gatherer.add('with its own id', false);
    await Promise.all([gatherer.add('a', true), gatherer.add('b', true)]);
    expect(sent).toEqual([
      ['alone', true],
      ['with its own id', false],
      ['a b', true],
      ['a', false],
      ['b', false],
    ]);
  });

  it('does not forget that jobs may have been added when it takes a batch apart', async () => {
    const sent: [string, boolean | undefined][] = [];
    const gatherer = new Gatherer(async (jobs, newJobs) => {
      sent.push([jobs.join(' '), newJobs?.mayBeAdded]);
      if (jobs.length === 1) return jobs.map((id) => ({ id, created: true }));
      if (newJobs) newJobs.mayBeAdded = true;
      throw new DroverError('invalid_request', 'no');
    });
    await Promise.all([gatherer.add('a', true), gatherer.add('b', true)]);
    expect(sent).toEqual([
      ['a b', false],
      ['a', true],
      ['b', true],
    ]);
  });

  it('rejects the whole batch when the server could not be reached', async () => {
    const { requests, send } = heldRequests();
    const gatherer = new Gatherer(send);
    const settled = Promise.allSettled([gatherer.add('a', true), gatherer.add('b', true)]);
    await microtasks();
    requests[0]?.fail(new DroverError('database_unavailable', 'gone'));
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });

  it('reads the indexes of jobs out of an error', () => {
    const issues = [{ field: 'jobs[3].queue' }, { field: 'jobs[12]' }, { field: 'jobs' }, { field: 'queue' }];
    expect(namedJobs({ issues })).toEqual(new Set([3, 12]));
    expect(namedJobs(undefined)).toEqual(new Set());
  });
});
