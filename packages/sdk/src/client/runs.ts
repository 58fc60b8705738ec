/** Runs of workflows: `client.start`, `client.run(id)` and `client.runs`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Duration, newId, type RouteAnswer, type RouteInput, type Run, type RunWithSteps } from '@drover/protocol';
import { RunCancelledError, RunFailedError, TimeoutError } from '../errors.js';
import { toJson } from '../json.js';
import { durationOption, refuseUnknownOptions } from '../options.js';
import { validate } from '../standard-schema.js';
import type { WorkflowDefinition } from '../workflow/workflow-definition.js';
import type { Api } from './api.js';
import type { ResultOptions } from './wait-for-result.js';
import type { Workflows } from './workflows.js';

const FIRST_POLL_MS = 50;
const LONGEST_POLL_MS = 2000;
const POLL_GROWTH = 1.5;

export type RunFilter = RouteInput<'listRuns'>['query'];
export type RunPage = RouteAnswer<'listRuns'>;

export type StartOptions = {
  /** The same id again is the same run. Default: a new one. */
  id?: string | undefined;
  /** The priority of its jobs, unless a step has its own. */
  priority?: number | undefined;
  /** Limit for the whole run. Default: that of the workflow. */
  timeout?: Duration | undefined;
};

export class RunHandle<Output = unknown> {
  readonly id: string;
  readonly #api: Api;

  /** Use `client.start` or `client.run`. */
  constructor(api: Api, id: string) {
    this.#api = api;
    this.id = id;
  }

  /**
   * Waits for the end of the run and returns its output. Throws `RunFailedError`, `RunCancelledError`, or `TimeoutError`
   * when the wait's own `timeout` has passed (the run continues).
   */
  async result(options: ResultOptions = {}): Promise<Output> {
    refuseUnknownOptions('result', options, ['timeout', 'signal']);
    const { signal } = options;
    const timeoutMs = durationOption('result', 'timeout', options.timeout, Number.POSITIVE_INFINITY);
    const deadline = performance.now() + timeoutMs;
    for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * POLL_GROWTH, LONGEST_POLL_MS)) {
      signal?.throwIfAborted();
      const run = await this.#api.call('getRun', { params: { id: this.id } }, { signal });
      if (run.state === 'cancelled') throw new RunCancelledError(run.id);
      if (run.state === 'failed') throw new RunFailedError(run.id, run.error);
      // Sound: the steps that the definition names produce it. Only their schemas can check it.
      if (run.state === 'succeeded') return run.output as Output;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw new TimeoutError(`run ${this.id} is ${run.state} after ${timeoutMs} ms`);
      await sleep(Math.min(pauseMs, leftMs), undefined, signal ? { signal } : {});
    }
  }

  /** The run with its steps. */
  get(): Promise<RunWithSteps> {
    return this.#api.call('getRun', { params: { id: this.id } });
  }

  /** Its jobs stop, and what has succeeded is undone. A run that is cancelled already stays as it is. */
  cancel(): Promise<Run> {
    return this.#api.call('cancelRun', { params: { id: this.id } });
  }

  /** Runs again what has failed in a finished run, and everything behind it. */
  async retry(): Promise<Run> {
    const changed = await this.#api.change('retryRun', { params: { id: this.id } }, ['running']);
    return changed ?? (await this.get());
  }

  /** Starts a new run that repeats this one from a step on. It keeps the outputs of the steps before. */
  async repeat({ from, id = newId() }: { from: string; id?: string | undefined }): Promise<RunHandle<Output>> {
    const { id: repeated } = await this.#api.call('repeatRun', { params: { id: this.id }, body: { from, id } });
    return new RunHandle(this.#api, repeated);
  }
}

type ToStart = {
  workflow: WorkflowDefinition | string;
  input: unknown;
  options: StartOptions | undefined;
};

/** By name: the latest version. By definition: exactly this one, which is registered first if this client has not yet. */
export async function startRun(
  api: Api,
  workflows: Workflows,
  { workflow, input, options = {} }: ToStart,
): Promise<RunHandle> {
  refuseUnknownOptions('start', options, ['id', 'priority', 'timeout']);
  const json = toJson(input, 'input');
  const { id = newId(), priority, timeout } = options;
  const run = { input: json.value, id, priority, timeout };
  if (typeof workflow === 'string') {
    await api.call('startRun', { body: { ...run, workflow } });
    return new RunHandle(api, id);
  }
  if (workflow.input !== undefined) await validate(workflow.input, json.value, 'input', input);
  const { name, version } = await workflows.put(workflow);
  await api.call('startRun', { body: { ...run, workflow: name, version } });
  return new RunHandle(api, id);
}
