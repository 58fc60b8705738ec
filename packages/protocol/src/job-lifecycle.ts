/**
 * The state machine of a job. Types, the states in the SQL of each verb, API filters and the trigger that guards test
 * databases are derived from the two tables below, and the docs are tested against them. A state or a move exists
 * only if it is listed here.
 *
 * Invariants: a job is in exactly one state; a finished job has moved from the hot table to the history; only a verb
 * of `MOVES` takes a job from one state to another.
 */

/** Every state, in the order of a job's life, with its meaning. */
export const JOB_STATES = {
  blocked: { finished: false, meaning: 'waits for parents or for a place behind a limit' },
  scheduled: { finished: false, meaning: 'its time has not come, or it waits before a retry' },
  ready: { finished: false, meaning: 'may start as soon as a suitable worker has a free slot' },
  running: { finished: false, meaning: 'given to a worker' },
  unknown: { finished: false, meaning: 'its worker was lost and it must not run again by itself' },
  succeeded: { finished: true, meaning: 'ended well' },
  failed: { finished: true, meaning: 'ended badly: no attempts left, permanent error, or expired' },
  cancelled: { finished: true, meaning: 'ended because a cancel was requested' },
} as const;

export type JobState = keyof typeof JOB_STATES;

export const ALL_STATES = Object.keys(JOB_STATES) as JobState[];
export const FINISHED_STATES = ALL_STATES.filter((state) => JOB_STATES[state].finished);
export const UNFINISHED_STATES = ALL_STATES.filter((state) => !JOB_STATES[state].finished);

type Move = { readonly from: readonly (JobState | 'new')[]; readonly to: readonly JobState[]; readonly why: string };

/** Every verb that may move a job. `new` is the state of a job that does not exist yet. */
export const MOVES = {
  enqueue: {
    from: ['new'],
    to: ['blocked', 'scheduled', 'ready', 'running'],
    why: 'a client adds it (straight to running when a free worker is at hand)',
  },
  promote: { from: ['scheduled'], to: ['ready'], why: 'its time has come' },
  unblock: { from: ['blocked'], to: ['ready', 'scheduled'], why: 'what it waited for has happened' },
  claim: { from: ['ready'], to: ['running'], why: 'a server gives it to a worker' },
  release: {
    from: ['running', 'unknown'],
    to: ['ready'],
    why: 'handed back by a worker that did not start or had to stop it; no attempt is used up',
  },
  complete: { from: ['running', 'unknown'], to: ['succeeded'], why: 'the handler returned' },
  retryLater: { from: ['running', 'unknown'], to: ['scheduled'], why: 'the attempt failed and attempts are left' },
  fail: {
    from: ['running', 'unknown'],
    to: ['failed', 'cancelled'],
    why: 'the attempt failed and none are left, or the job was to be cancelled',
  },
  failByHand: { from: ['unknown'], to: ['failed'], why: 'a person found out that it did not do its work' },
  snooze: {
    from: ['running', 'unknown'],
    to: ['scheduled'],
    why: 'the handler asked to be run later; no attempt is used up',
  },
  cancel: { from: ['blocked', 'scheduled', 'ready', 'unknown'], to: ['cancelled'], why: 'a cancel was requested' },
  stop: { from: ['running', 'unknown'], to: ['cancelled'], why: 'the worker stopped it after a cancel' },
  expire: { from: ['blocked', 'scheduled', 'ready'], to: ['failed'], why: 'it is past its expiry' },
  lose: { from: ['running'], to: ['ready', 'failed', 'unknown'], why: 'its worker was lost' },
  retry: {
    from: ['scheduled', 'failed', 'cancelled', 'unknown'],
    to: ['ready'],
    why: 'a person asked for another attempt',
  },
} as const satisfies Record<string, Move>;

export type JobVerb = keyof typeof MOVES;
/** The states from which a verb may move a job, and those to which it may move it. */
export type StateBefore<Verb extends JobVerb> = (typeof MOVES)[Verb]['from'][number];
export type StateAfter<Verb extends JobVerb> = (typeof MOVES)[Verb]['to'][number];

export function isFinished(state: JobState): boolean {
  return JOB_STATES[state].finished;
}

/** Whether any verb may take a job from one state to the other. */
export function isLegalMove(from: JobState | 'new', to: JobState): boolean {
  return Object.values<Move>(MOVES).some((move) => move.from.includes(from) && move.to.includes(to));
}

/** The states a verb may start from, for guards and error messages. */
export function statesBefore(verb: JobVerb): readonly (JobState | 'new')[] {
  return MOVES[verb].from;
}
