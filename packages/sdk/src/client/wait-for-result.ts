/** Waits for a job's end by long polls, each of them short enough for proxies and for a server to go. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Duration, RouteAnswer } from '@drover/protocol';
import type { JobDefinition } from '../define-job.js';
import { JobCancelledError, JobFailedError, TimeoutError } from '../errors.js';
import { durationOption, refuseUnknownOptions } from '../options.js';
import { validate } from '../standard-schema.js';
import type { Requester } from './requester.js';

const LONGEST_POLL_MS = 30_000;
/** A server that answers at once without a result must not be asked in a tight loop. */
const SHORTEST_ROUND_MS = 250;

export type ResultOptions = {
  /** Unless given, the wait has no end of its own: a job may take days. */
  timeout?: Duration | undefined;
  signal?: AbortSignal | undefined;
};

export async function waitForResult<Result>(
  requester: Requester,
  id: string,
  definition: JobDefinition<unknown, Result, unknown, unknown> | undefined,
  options: ResultOptions,
): Promise<Result> {
  refuseUnknownOptions('result', options, ['timeout', 'signal']);
  const timeoutMs = durationOption('result', 'timeout', options.timeout, Number.POSITIVE_INFINITY);
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    options.signal?.throwIfAborted();
    const askedAt = performance.now();
    const waitMs = Math.ceil(Math.min(LONGEST_POLL_MS, Math.max(0, deadline - askedAt)));
    const answer = (await requester.request({
      method: 'GET',
      path: `/api/v1/jobs/${encodeURIComponent(id)}/result?wait=${waitMs}ms`,
      waitMs,
      signal: options.signal,
    })) as RouteAnswer<'jobResult'>;
    if (answer.finished) return await resultOf(answer, definition);
    const now = performance.now();
    if (now >= deadline) throw new TimeoutError(`job ${id} is ${answer.state} after ${timeoutMs} ms`);
    const pauseMs = Math.min(SHORTEST_ROUND_MS - (now - askedAt), deadline - now);
    if (pauseMs > 0) await sleep(pauseMs, undefined, options.signal ? { signal: options.signal } : {});
  }
}

function resultOf<Result>(
  answer: RouteAnswer<'jobResult'>,
  definition: JobDefinition<unknown, Result, unknown, unknown> | undefined,
): Result | Promise<Result> {
  if (answer.state === 'cancelled') throw new JobCancelledError(answer.id);
  if (answer.state !== 'succeeded') throw new JobFailedError(answer.id, answer.error);
  if (definition?.result) return validate(definition.result, answer.result, `result of job ${answer.id}`);
  return answer.result as Result;
}
