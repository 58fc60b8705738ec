/** Changes of one existing job by a person or a client. "Not possible" is a normal answer, with the reason. */
import type { JobState } from '@drover/protocol';
import type { Database } from '../db/database.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import { cancelJobs, jobState } from '../lifecycle/cancel.js';
import { failJobByHand } from '../lifecycle/fail-by-hand.js';
import type { Publish } from '../lifecycle/publish.js';
import { retryJob as retry } from '../lifecycle/retry.js';

/** Why the change was not possible. */
export type Refused = 'not_found' | { wrongState: JobState };

export type ChangeJobDeps = { db: Pick<Database, 'bulk' | 'reads'>; serverId: string; publish: Publish };

export async function cancelJob(deps: ChangeJobDeps, id: string): Promise<'cancelled' | 'requested' | Refused> {
  const changes = await cancelJobs(deps.db.bulk, deps.serverId, [id]);
  deps.publish(changes);
  const [change] = changes;
  if (!change) return refused(deps, id);
  return change.stop ? 'requested' : 'cancelled';
}

export async function retryJob(deps: ChangeJobDeps, id: string): Promise<'done' | Refused> {
  const changes = await retry(deps.db.bulk, id);
  deps.publish(changes);
  return changes.length > 0 ? 'done' : refused(deps, id);
}

export async function failJob(deps: ChangeJobDeps, id: string, reason: string): Promise<'done' | Refused> {
  const changes = await failJobByHand(deps.db.bulk, deps.serverId, id, reason);
  deps.publish(changes);
  return changes.length > 0 ? 'done' : refused(deps, id);
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
