/**
 * Hooks through which tests control servers and workers. Both functions do nothing, and no setting changes that. The
 * preload of `test/support/test-points`, which is in no package, replaces them in a process that a test starts. They
 * are in this package because the server and the worker may both import it.
 */

/** Places where a test kills or freezes the process, by program, in the order of a job's life. */
export const FAILPOINTS = {
  server: [
    'insert.before',
    'insert.committed',
    'claim.committed',
    'claim.sent',
    'outcomes.before',
    'outcomes.committed',
    'session.opened',
    'renew.before',
    'lose.before',
  ],
  schedules: ['fire.before', 'fire.committed'],
  /** The start of a `hold` job is durable; its handler has not been called. */
  worker: ['hold.journaled'],
} as const;
export type Failpoint = (typeof FAILPOINTS)[keyof typeof FAILPOINTS][number];

/** Mechanisms that a test turns off to prove that it would detect their absence. */
export const SAFETY_MECHANISMS = ['fencing', 'beacon', 'self-stop'] as const;
export type SafetyMechanism = (typeof SAFETY_MECHANISMS)[number];

export function failpoint(_place: Failpoint): void {}

export function isSwitchedOff(_mechanism: SafetyMechanism): boolean {
  return false;
}
