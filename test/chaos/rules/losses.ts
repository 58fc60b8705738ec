/** Whether a grant was lost with its worker, by what was seen outside. */
import { type Evidence, type Grant, processKey, runsOf } from '../evidence/evidence.js';
import { grantKey } from '../evidence/journals.js';

/** Attempts of one job that may be lost with their worker. A job that kills its workers fails after that many. */
export const LOST_LIMIT = 3;

/**
 * Its process did not end cleanly, its worker was declared dead (S10 checks that), or its handler was stopped for it.
 * An isolated handler that was stopped while its process loaded it is only in the journal of its worker.
 */
export function isLost(evidence: Evidence, grant: Grant, dead: ReadonlySet<string>): boolean {
  const instance = evidence.instanceByProcess.get(processKey(grant));
  if (instance?.exitedAt !== undefined && instance.ending !== 'code 0') return true;
  if (dead.has(grant.sessionId)) return true;
  const journal = instance && evidence.journals.get(instance.key);
  if (journal?.get(grantKey(grant.id, grant.fence))?.outcome === 'lost') return true;
  return runsOf(evidence, grant.id).some(({ fence, end }) => fence === grant.fence && end === 'abort:lost');
}

export function deadSessions({ verdicts }: Evidence): Set<string> {
  return new Set(verdicts.map(({ sessionId }) => sessionId));
}
