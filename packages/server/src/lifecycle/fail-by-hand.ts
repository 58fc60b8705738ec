/** unknown → failed: a person has found that the job did not do its work. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { type Change, runVerb } from './change.js';
import { finish, selectEnded } from './finish.js';
import { stateAfter } from './states.js';

const ENDING = finish({
  verb: 'failByHand',
  where: 'j.id = $1',
  to: stateAfter('failByHand', 'failed'),
  error: '$3',
});

const failByHand = sql('fail_by_hand')`
with ${ENDING}
${selectEnded('failByHand')}`;

/** Changes nothing unless the job is unknown. */
export function failJobByHand(db: Runner, serverId: string, id: string, reason: string): Promise<Change[]> {
  const error = JSON.stringify({ name: 'FailedByHandError', code: 'failed_by_hand', message: reason });
  return runVerb(db, failByHand, [id, serverId, error], { verb: 'failByHand', from: 'unknown', to: 'failed' });
}
