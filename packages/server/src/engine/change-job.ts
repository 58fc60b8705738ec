/** Changes of one existing job by a person or a client. "Not possible" is a normal answer, with the reason. */
import type { JobState } from '@drover/protocol';
import { audited } from '../access/audit.js';
import type { Caller } from '../access/principal.js';
import type { Database, Runner } from '../db/database.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import { cancelJobs, jobState } from '../lifecycle/cancel.js';
import type { Change } from '../lifecycle/change.js';
import { failJobByHand } from '../lifecycle/fail-by-hand.js';
import type { Publish } from '../lifecycle/publish.js';
import { retryJob as retry } from '../lifecycle/retry.js';

/** Why the change was not possible. */
export type Refused = 'not_found' | { wrongState: JobState };

export type ChangeJobDeps = { db: Pick<Database, 'bulk' | 'reads'>; serverId: string; publish: Publish };

export async function cancelJob(
  deps: ChangeJobDeps,
  id: string,
  by: Caller,
): Promise<'cancelled' | 'requested' | Refused> {
  const changes = await auditedChanges(deps, id, by, (tx) => cancelJobs(tx, deps.serverId, [id]));
  deps.publish(changes);
  const [change] = changes;
  if (!change) return refused(deps, id);
  return change.stop ? 'requested' : 'cancelled';
}

export async function retryJob(deps: ChangeJobDeps, id: string, by: Caller): Promise<'done' | Refused> {
  const changes = await auditedChanges(deps, id, by, (tx) => retry(tx, id));
  deps.publish(changes);
  return changes.length > 0 ? 'done' : refused(deps, id);
}

export async function failJob(deps: ChangeJobDeps, id: string, reason: string, by: Caller): Promise<'done' | Refused> {
  const changes = await auditedChanges(deps, id, by, (tx) => failJobByHand(tx, deps.serverId, id, reason));
  deps.publish(changes);
  return changes.length > 0 ? 'done' : refused(deps, id);
}

function auditedChanges(
  { db }: ChangeJobDeps,
  id: string,
  by: Caller,
  change: (tx: Runner) => Promise<Change[]>,
): Promise<Change[]> {
  return audited(db.bulk, by, async (tx, note) => {
    const changes = await change(tx);
    const own = changes.find((one) => one.id === id);
    if (own) {
      const { type, queue, from, to, stop } = own;
      note({
        target: id,
        before: { state: from },
        after: { state: to, type, queue, ...(stop && { isAskedToStop: true }) },
      });
    }
    return changes;
  });
}

/**
 * A client that repeats a change after a lost answer treats the refusal as success, so the change must be on the
 * standby by then.
 */
async function refused({ db }: ChangeJobDeps, id: string): Promise<Refused> {
  await replicationBarrier(db.bulk);
  const state = await jobState(db.reads, id);
  return state === undefined ? 'not_found' : { wrongState: state };
}
