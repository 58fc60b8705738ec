import { describe, expect, it } from 'vitest';
import { defineJob, type IsolationInput } from '../src/index.js';
import { JOB } from '../src/job-definition.js';

const isolationOf = (isolation: unknown) =>
  defineJob({ type: 'job', isolation: isolation as IsolationInput })[JOB].isolation;
const MIB = 1024 * 1024;

describe('the isolation of a job type', () => {
  it('has defaults for everything', () => {
    expect(isolationOf(undefined)).toBeUndefined();
    expect(isolationOf('none')).toBeUndefined();
    const defaults = { kind: 'process', memoryBytes: undefined, maxJobs: 1000, graceMs: 5000 };
    expect(isolationOf('process')).toEqual(defaults);
    expect(isolationOf({ kind: 'process', reuse: true })).toEqual(defaults);
  });

  it('takes sizes, counts and durations', () => {
    expect(isolationOf({ kind: 'process', memory: '512MiB', reuse: false, grace: '2s' })).toMatchObject({
      memoryBytes: 512 * MIB,
      maxJobs: 1,
      graceMs: 2000,
    });
    expect(isolationOf({ kind: 'process', memory: '1.5GiB', reuse: 50 })).toMatchObject({
      memoryBytes: 1536 * MIB,
      maxJobs: 50,
    });
  });

  it.each([
    ['thread', 'isolation: expected "none", "process" or { kind: "process", memory?, reuse?, grace? }, got "thread"'],
    [{ kind: 'thread' }, 'isolation.kind: expected "process", got "thread"'],
    [{ kind: 'process', memory: '1MiB' }, 'isolation.memory: expected a size such as "512MiB"'],
    [{ kind: 'process', memory: 'much' }, 'got "much"'],
    [{ kind: 'process', reuse: 0 }, 'isolation.reuse: expected a whole number from 1'],
    [{ kind: 'process', grace: 'long' }, 'isolation.grace: expected a duration'],
    [{ kind: 'process', memry: 1 }, 'isolation: unknown option "memry"; did you mean "memory"?'],
  ])('refuses %j', (isolation, message) => {
    expect(() => isolationOf(isolation)).toThrow(message);
  });
});
