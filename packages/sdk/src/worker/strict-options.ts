/**
 * Where a job and the definition of its worker disagree about what happens when the worker is lost, or about the time limit
 * of an attempt, the stricter applies: `hold`, and the shorter time. The server has made `hold` durable before it sent the
 * job (see claim in the server); this is the worker's half.
 */
import type { Assignment } from '@drover/protocol';
import { JOB, type RunnableJob } from '../job-definition.js';

type Limits = { hold: boolean; timeout: number | undefined };

/** Returns the function that gives each assignment the options that apply. Most are returned unchanged. */
export function strictOptions(jobs: readonly RunnableJob[]): (assignment: Assignment) => Assignment {
  const limits = new Map<string, Limits>();
  for (const job of jobs) {
    const { onLost, timeout } = job[JOB].defaults;
    if (onLost === 'hold' || timeout !== undefined) limits.set(job.type, { hold: onLost === 'hold', timeout });
  }
  return (assignment) => {
    const own = limits.get(assignment.type);
    const { options, hold } = assignment;
    const isHeld = (hold === true || own?.hold === true) && options?.onLost !== 'hold';
    const isShorter = own?.timeout !== undefined && own.timeout < (options?.timeout ?? Number.POSITIVE_INFINITY);
    if (!isHeld && !isShorter) return assignment;
    const stricter = {
      ...options,
      ...(isHeld && { onLost: 'hold' as const }),
      ...(isShorter && { timeout: own.timeout }),
    };
    return { ...assignment, options: stricter };
  };
}
