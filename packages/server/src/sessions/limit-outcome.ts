/**
 * Applies the limits to outcomes: a part over its limit fails the job with a reason; messages that are too long are
 * cut.
 */
import { DroverError, LIMITS, type Outcome } from '@drover/protocol';
import { checkedJobs } from '../new-jobs/check-jobs.js';

export type OutcomeLimits = { payloadLimitBytes: number; resultLimitBytes: number };

export function limitOutcome(outcome: Outcome, limits: OutcomeLimits): Outcome {
  if (outcome.kind === 'failed') return { ...outcome, error: cutError(outcome.error) };
  if (outcome.kind !== 'succeeded') return outcome;
  if (outcome.result && isOver(outcome.result, limits.resultLimitBytes)) {
    return refused(outcome, 'result_too_large', `the result is over the limit of ${limits.resultLimitBytes} bytes`);
  }
  try {
    if (outcome.children) checkedJobs(outcome.children, { ...limits, nowMs: Date.now() });
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    return refused(outcome, error.code, `a child job was refused: ${error.message}`);
  }
  return outcome;
}

/** Bytes are counted only when the characters could be too many: a character is at most three bytes. */
function isOver(text: string, limitBytes: number): boolean {
  return text.length > limitBytes || (text.length * 3 > limitBytes && Buffer.byteLength(text) > limitBytes);
}

function refused({ id, fence, runMs }: Extract<Outcome, { runMs: number }>, code: string, message: string): Outcome {
  return { kind: 'failed', id, fence, runMs, error: { name: 'LimitError', code, message } };
}

function cutError<E extends { name: string; message: string; stack?: string | undefined }>(error: E): E {
  const { name, message, stack } = error;
  return {
    ...error,
    name: name.slice(0, LIMITS.nameLength),
    message: message.slice(0, LIMITS.errorMessageLength),
    ...(stack === undefined ? {} : { stack: stack.slice(0, LIMITS.errorStackLength) }),
  };
}
