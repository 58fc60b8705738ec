/**
 * Waits for the end of a job by long polls. Each poll is short enough for proxies and for a server that shuts down.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Duration, RouteAnswer } from '@drover/protocol';
import { JobCancelledError, JobFailedError, TimeoutError } from '../errors.js';
import type { JobDefinition } from '../job-definition.js';
import { durationOption, refuseUnknownOptions } from '../options.js';
import { validate } from '../standard-schema.js';
import type { Api } from './api.js';
import { warnIfNotOffered } from './not-offered.js';

const LONGEST_POLL_MS = 30_000;
/** Prevents a tight loop when a server answers at once without a result. */
const SHORTEST_ROUND_MS = 250;
/** A job that has not started by then may wait for a worker that does not exist. */
const OFFERED_WITHIN_MS = 3000;

export type ResultOptions = {
  /** Default: no limit, because a job may take days. */
  timeout?: Duration | undefined;
  signal?: AbortSignal | undefined;
};

export async function waitForResult<Result>(
  api: Api,
  id: string,
  definition: JobDefinition<unknown, Result> | undefined,
  options: ResultOptions,
): Promise<Result> {
  refuseUnknownOptions('result', options, ['timeout', 'signal']);
  const timeoutMs = durationOption('result', 'timeout', options.timeout, Number.POSITIVE_INFINITY);
  const deadline = performance.now() + timeoutMs;
  const reminder = setTimeout(() => void warnIfNotOffered(api, id), OFFERED_WITHIN_MS);
  // waiting keeps the process alive by its request
  reminder.unref();
  try {
    return await poll(api, id, definition, { ...options, timeoutMs, deadline });
  } finally {
    clearTimeout(reminder);
  }
}

type Waiting = { timeoutMs: number; deadline: number; signal?: AbortSignal | undefined };

async function poll<Result>(
  api: Api,
  id: string,
  definition: JobDefinition<unknown, Result> | undefined,
  { timeoutMs, deadline, signal }: Waiting,
): Promise<Result> {
  for (;;) {
    signal?.throwIfAborted();
    const askedAt = performance.now();
    const waitMs = Math.ceil(Math.min(LONGEST_POLL_MS, Math.max(0, deadline - askedAt)));
    const input = { params: { id }, query: { wait: `${waitMs}ms` as const } };
    const answer = await api.call('jobResult', input, { waitMs, signal });
    if (answer.finished) return await resultOf(answer, definition);
    const now = performance.now();
    if (now >= deadline) throw new TimeoutError(`job ${id} is ${answer.state} after ${timeoutMs} ms`);
    const pauseMs = Math.min(SHORTEST_ROUND_MS - (now - askedAt), deadline - now);
    if (pauseMs > 0) await sleep(pauseMs, undefined, signal ? { signal } : {});
  }
}

function resultOf<Result>(
  answer: RouteAnswer<'jobResult'>,
  definition: JobDefinition<unknown, Result> | undefined,
): Result | Promise<Result> {
  if (answer.state === 'cancelled') throw new JobCancelledError(answer.id);
  if (answer.state !== 'succeeded') throw new JobFailedError(answer.id, answer.error);
  if (definition?.result) return validate(definition.result, answer.result, `result of job ${answer.id}`);
  // Without a schema, the type is what the author of the definition declared. Only a schema can check it.
  return answer.result as Result;
}
