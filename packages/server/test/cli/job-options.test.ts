import { newJobSchema } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { JOB_FLAGS, newJobFrom, parseBackoff } from '../../src/cli/job-options.js';
import { drover } from './run-cli.js';

describe('the flags of job add', () => {
  it('cover every option that a job has', () => {
    // what is typed by hand is never complete
    const fields = [...JOB_FLAGS.map(({ field }) => field), 'type', 'payload', 'complete'];
    expect(fields.sort()).toEqual(Object.keys(newJobSchema.shape).sort());
  });

  it('make the job that the API takes', () => {
    const flags = {
      queue: 'mail',
      priority: '-5',
      delay: '30s',
      maxAttempts: '3',
      backoff: 'fixed:5s',
      timeout: '1000',
      expiresAt: '2030-01-31T12:00:00Z',
      retention: '1d',
      tag: ['a', 'b'],
      id: '018F0000-0000-7000-8000-000000000000',
    };
    expect(newJobFrom('hello', { name: 'Ada' }, flags)).toEqual({
      type: 'hello',
      payload: { name: 'Ada' },
      queue: 'mail',
      priority: -5,
      delay: 30_000,
      maxAttempts: 3,
      backoff: { kind: 'fixed', delay: 5000, jitter: 0 },
      timeout: 1000,
      expiresAt: '2030-01-31T12:00:00.000Z',
      retention: 86_400_000,
      tags: ['a', 'b'],
      id: '018f0000-0000-7000-8000-000000000000',
    });
  });

  it.each([
    ['fixed:5s', { kind: 'fixed', delay: '5s' }],
    ['list:1s, 10s,1m', { kind: 'list', delays: ['1s', '10s', '1m'] }],
    ['exponential', { kind: 'exponential' }],
    ['exponential:500ms', { kind: 'exponential', base: '500ms' }],
    ['exponential:1s,3,1h', { kind: 'exponential', base: '1s', factor: 3, max: '1h' }],
    ['{"kind":"fixed","delay":5}', { kind: 'fixed', delay: 5 }],
  ])('take the back-off %s', (text, backoff) => {
    expect(parseBackoff(text)).toEqual(backoff);
  });

  it.each([
    [['--priority', 'high'], 'priority: '],
    [['--priority=-5000'], 'priority: '],
    [['--delay', 'soon'], 'delay: expected a duration'],
    [['--delay', '1s', '--run-at', '2030-01-01T00:00:00Z'], 'expected either delay or runAt, not both'],
    [['--run-at', 'tomorrow'], 'runAt: '],
    [['--backoff', 'sometimes:5s'], '--backoff: expected fixed:5s'],
    [['--backoff', 'fixed:soon'], 'backoff.delay: expected a duration'],
    [['--backoff', '{'], '--backoff: expected JSON'],
    [['--id', '7'], 'id: expected a UUID'],
    [['--queue', 'two words'], 'queue: expected a name'],
    [['{name: 1}'], 'payload: expected JSON'],
    [['1', '--payload-file', 'x.json'], 'not both'],
    [['--payload-file', '/nowhere/x.json'], 'cannot read /nowhere/x.json'],
    [['-'], 'payload: expected JSON'],
  ])('refuse %j without asking a server', async (args, message) => {
    const { code, stderr } = await drover(['job', 'add', 'hello', ...args], { stdin: 'not json' });
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });

  it.each([
    [['--state', 'done'], 'state'],
    [['--limit', '0'], 'limit'],
    [['--created-after', 'yesterday'], 'createdAfter: '],
  ])('of job list are checked likewise: %j', async (args, message) => {
    const { code, stderr } = await drover(['job', 'list', ...args]);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
