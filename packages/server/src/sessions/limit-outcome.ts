/** Applies the limits of this server to outcomes: a part over its limit fails the job with a reason. */
import {
  DroverError,
  formatDuration,
  type Grant,
  isStorableJson,
  LIMITS,
  MAX_DURATION_MS,
  type Outcome,
} from '@drover/protocol';
import type { Principal } from '../access/principal.js';
import { requireInScope } from '../access/scope.js';
import { checkedJobs } from '../new-jobs/check-jobs.js';
import { type KnownTypes, NO_TYPES, placedJob } from '../new-jobs/known-types.js';

export type OutcomeLimits = { payloadLimitBytes: number; resultLimitBytes: number };

/** The code of an outcome that no row could hold. */
export const REFUSED_CODE = 'outcome_refused';

/** `principal`: of the worker; the children must be in its scope, with the defaults of their types. */
export function limitOutcome(
  outcome: Outcome,
  limits: OutcomeLimits,
  principal: Principal,
  types: KnownTypes,
): Outcome {
  if (Math.max(...timesOf(outcome)) > MAX_DURATION_MS) {
    return refused(
      outcome,
      REFUSED_CODE,
      `a time of the outcome is over the limit of ${formatDuration(MAX_DURATION_MS)}`,
    );
  }
  if (outcome.kind !== 'succeeded') return outcome;
  if (outcome.result && isOver(outcome.result, limits.resultLimitBytes)) {
    return refused(outcome, 'result_too_large', `the result is over the limit of ${limits.resultLimitBytes} bytes`);
  }
  if (outcome.result && !isStorableJson(outcome.result)) {
    return refused(outcome, REFUSED_CODE, `the result is not JSON of at most ${LIMITS.payloadDepth} levels`);
  }
  try {
    if (outcome.children) {
      checkedJobs(outcome.children, { ...limits, nowMs: Date.now(), types: NO_TYPES });
      const placed = principal.scope === undefined ? [] : outcome.children.map((child) => placedJob(child, types));
      requireInScope(principal, placed, (name, place) => `children[${place}].${name}`);
    }
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    return refused(outcome, error.code, `a child job was refused: ${error.message}`);
  }
  return outcome;
}

function timesOf(outcome: Outcome): number[] {
  const { runMs = 0, retryInMs = 0, inMs = 0 } = outcome as { runMs?: number; retryInMs?: number; inMs?: number };
  return [runMs, retryInMs, inMs];
}

/** Bytes are counted only when the characters could be too many: a character is at most three bytes. */
function isOver(text: string, limitBytes: number): boolean {
  return text.length > limitBytes || (text.length * 3 > limitBytes && Buffer.byteLength(text) > limitBytes);
}

function refused({ id, fence }: Grant, code: string, message: string): Outcome {
  return { kind: 'failed', id, fence, runMs: 0, error: { name: 'LimitError', code, message } };
}
