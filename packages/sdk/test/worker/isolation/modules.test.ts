import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { defineJob, handle, type RunnableJob } from '../../../src/index.js';
import { JOB } from '../../../src/job-definition.js';
import { createWorker, jobsOf } from '../../../src/worker/index.js';
import { nodeArguments } from '../../../src/worker/isolation/node-arguments.js';
import { TestWorker } from './support.js';

const fixture = (name: string) => new URL(`./fixtures/${name}`, import.meta.url);
const job = defineJob({ type: 'job', isolation: 'process' });

let worker: TestWorker | undefined;
afterEach(() => worker?.runner.stop());

function run(jobs: RunnableJob[], payload?: unknown) {
  worker = new TestWorker(jobs);
  return worker.run(jobs[0]?.type as string, payload);
}

describe('the module of an isolated handler', () => {
  it('may be TypeScript, given what loads it', async () => {
    const module = (await import('./fixtures/typescript-handlers.js' as string)) as object;
    const jobs = jobsOf(module, fixture('typescript-handlers.ts'), { loader: import.meta.resolve('tsx') });
    expect(await run(jobs, { n: 1 })).toMatchObject({ kind: 'succeeded', result: '"yes 1"' });
  });

  it('may be CommonJS, named by its path', async () => {
    const path = fileURLToPath(fixture('commonjs-handlers.cjs'));
    const jobs = jobsOf(await import(path), path);
    expect(jobs.map(({ type }) => type).sort()).toEqual(['commonjs.first', 'commonjs.listed', 'commonjs.second']);
    const isolated = jobs.filter(({ type }) => type === 'commonjs.first');
    expect(await run(isolated)).toMatchObject({ kind: 'succeeded', result: '"drover commonjs.first"' });
  });

  it.each([
    ['broken-module.mjs', 'this module cannot be loaded'],
    ['handlers.mjs', 'the module exports no handler of "job"'],
    ['missing.mjs', 'Cannot find module'],
  ])('that cannot be used (%s) fails the attempt with the reason', async (name, reason) => {
    const outcome = await run([handle(job, () => {}, { module: fixture(name) })]);
    const message = expect.stringMatching(new RegExp(`could not load .*${name}: .*${reason}`, 's'));
    expect(outcome).toMatchObject({
      kind: 'failed',
      retryInMs: expect.any(Number),
      error: { code: 'crashed', message },
    });
  });

  it('does not start a second worker', async () => {
    const programme = defineJob({ type: 'programme', isolation: 'process' });
    const outcome = await run([handle(programme, () => {}, { module: fixture('starts-a-worker.mjs') })]);
    expect(outcome).toMatchObject({ error: { message: expect.stringContaining('module that starts no worker') } });
  });

  it('must be known when the worker is created', () => {
    const without = handle(job, () => {});
    expect(() => createWorker({ jobs: [without] })).toThrow(
      /option module of the isolated job "job": import\.meta\.url/,
    );
    expect(() => handle(job, () => {}, { module: './job.js' })).toThrow(
      'handle: module: expected the address of a file: import.meta.url, or __filename in CommonJS, got "./job.js"',
    );
    expect(() => handle(job, () => {}, { modul: import.meta.url } as never)).toThrow('did you mean "module"?');
    expect(jobsOf({ without }, import.meta.url)[0]?.[JOB].module).toBe(import.meta.url);
  });

  it('keeps what a job says of itself, without the name of an instance', () => {
    const own = handle(job, () => {}, { module: 'file:///a.ts?tsx-namespace=1&x=2' });
    expect(jobsOf({ own }, 'file:///b.ts')[0]?.[JOB].module).toBe('file:///a.ts?x=2');
  });
});

describe('the arguments of Node', () => {
  it('take over what loads modules, and nothing else', () => {
    const inherited = ['--inspect=9229', '--import', 'tsx', '--require=./a.cjs', '-e', 'code', '--enable-source-maps'];
    const needs = { loader: 'file:///loader.mjs', memoryBytes: 512 * 1024 * 1024 };
    expect(nodeArguments(inherited, needs)).toEqual([
      ...['--import', 'tsx', '--require=./a.cjs', '--enable-source-maps'],
      ...['--import', 'file:///loader.mjs', '--max-old-space-size=512'],
    ]);
    expect(nodeArguments([], { loader: undefined, memoryBytes: undefined })).toEqual([]);
  });
});
