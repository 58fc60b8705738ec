/** States of jobs in SQL, taken from the table of moves, so that a statement cannot disagree with it. */
import { type JobState, type JobVerb, type StateAfter, statesBefore } from '@drover/protocol';

export function stateLiteral(state: JobState): string {
  return `'${state}'::drover.job_state`;
}

/** "This verb may move a job that is in this state": the guard by the state before. */
export function mayMove(verb: JobVerb, state = 'j.state'): string {
  const before = statesBefore(verb)
    .filter((from) => from !== 'new')
    .map(stateLiteral);
  // one state as an equality, because partial indexes are conditioned like that
  return before.length === 1 ? `${state} = ${before[0]}` : `${state} in (${before.join(', ')})`;
}

/** A state to which the verb takes jobs; another one does not compile. */
export function stateAfter<Verb extends JobVerb>(_verb: Verb, state: StateAfter<Verb>): string {
  return stateLiteral(state);
}
