/**
 * Outcomes that workers report, batched over all workers and written by one statement per verb and batch. The
 * acknowledgement follows the commit. An outcome of a grant that is no longer the worker's changes nothing and is
 * acknowledged too, so a repeated or late report does no harm.
 *
 * While the database is unavailable, the batch is sent again until it is back: the guards make that safe, and the
 * workers keep their copies until they are acknowledged.
 */
import type { Outcome } from '@drover/protocol';
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import { createGatherer } from '../base/gather.js';
import type { Runner } from '../db/database.js';
import { isPassing } from '../db/database-error.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import type { Change } from '../lifecycle/change.js';
import { completeJobs, completeJobsWithChildren } from '../lifecycle/complete.js';
import { failJobs } from '../lifecycle/fail.js';
import { loseGrants } from '../lifecycle/lose.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseJobs } from '../lifecycle/release.js';
import { snoozeJobs } from '../lifecycle/snooze.js';
import { stopJobs } from '../lifecycle/stop.js';
import { childrenOf } from './children.js';

export type Outcomes = {
  /** Resolves, after the commit, with the ids of jobs that were no longer at these grants. */
  report(items: Outcome[]): Promise<Set<string>>;
  idle(): Promise<void>;
};

type OutcomesDeps = {
  db: Runner;
  serverId: string;
  logger: Logger;
  publish: Publish;
  signal: AbortSignal;
};

type OfKind<Name extends Outcome['kind']> = Extract<Outcome, { kind: Name }>;
/** The outcomes that each verb writes, by kind. Successes with children are separate. */
type Kinds = { [Name in Outcome['kind']]: OfKind<Name> } & { parent: OfKind<'succeeded'> };
type Kind = keyof Kinds;

const VERBS: { [Name in Kind]: (db: Runner, serverId: string, items: Kinds[Name][]) => Promise<Change[]> } = {
  succeeded: completeJobs,
  parent(db, serverId, items) {
    const parents = items.map((item) => ({ ...item, children: childrenOf(item) }));
    return completeJobsWithChildren(db, serverId, parents);
  },
  failed: failJobs,
  snoozed: (db, _serverId, items) => snoozeJobs(db, items),
  cancelled: stopJobs,
  lost: loseGrants,
  released: (db, _serverId, items) => releaseJobs(db, items),
};
const KINDS = Object.keys(VERBS) as Kind[];

function kindOf(item: Outcome): Kind {
  return item.kind === 'succeeded' && item.children && item.children.length > 0 ? 'parent' : item.kind;
}

function isOfKind<Name extends Kind>(kind: Name): (item: Outcome) => item is Kinds[Name] {
  return (item): item is Kinds[Name] => kindOf(item) === kind;
}

const MAX_OUTCOMES_A_BATCH = 2000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 2000;
/** The code of the error that replaces an outcome which the database refuses. */
const REFUSED_CODE = 'outcome_refused';

export function createOutcomes(deps: OutcomesDeps): Outcomes {
  const { db, serverId, logger, signal } = deps;

  /** Writes one batch and returns the ids that did not change, because they were no longer at these grants. */
  async function write(items: Outcome[]): Promise<Set<string>> {
    failpoint('outcomes.before');
    const changed = new Set<string>();
    for (const kind of KINDS) {
      for (const { id } of await writeKind(kind, items)) changed.add(id);
    }
    return new Set(items.flatMap(({ id }) => (changed.has(id) ? [] : id)));
  }

  async function writeKind<Name extends Kind>(kind: Name, items: Outcome[]): Promise<Change[]> {
    const own = items.filter(isOfKind(kind));
    if (own.length === 0) return [];
    const changes = await VERBS[kind](db, serverId, own);
    deps.publish(changes);
    return changes;
  }

  async function writeUntilDone(items: Outcome[]): Promise<Set<string>> {
    let waitMs = RETRY_MIN_MS;
    for (;;) {
      try {
        const stale = await write(items);
        // an earlier try, of this server or another one, may be committed on the primary alone
        if (stale.size > 0) await replicationBarrier(db);
        failpoint('outcomes.committed');
        return stale;
      } catch (error) {
        if (!isPassing(error)) return isolate(items, error as Error);
        if (signal.aborted) throw error;
        logger.warn({ err: error, outcomes: items.length }, 'outcomes could not be written, trying again');
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        waitMs = Math.min(RETRY_MAX_MS, waitMs * 2);
      }
    }
  }

  /** One outcome that the database refuses must not hold up the others: it is found by halving and failed. */
  async function isolate(items: Outcome[], error: Error): Promise<Set<string>> {
    const [only] = items;
    if (items.length === 1 && only) {
      logger.error({ err: error, job: only.id }, 'an outcome was refused by the database');
      // this one is our own: if even that is refused, the job is left to be handed back
      if (only.kind === 'failed' && only.error.code === REFUSED_CODE) return new Set([only.id]);
      const refused = { name: 'OutcomeRefusedError', code: REFUSED_CODE, message: error.message };
      return writeUntilDone([{ id: only.id, fence: only.fence, kind: 'failed', runMs: 0, error: refused }]);
    }
    const middle = Math.ceil(items.length / 2);
    const first = await writeUntilDone(items.slice(0, middle));
    const second = await writeUntilDone(items.slice(middle));
    return new Set([...first, ...second]);
  }

  const gatherer = createGatherer<Outcome[], Set<string>>({
    weigh: (items) => items.length,
    maxWeight: MAX_OUTCOMES_A_BATCH,
    // one at a time: batches of one server would wait for each other at the rollup rows
    concurrency: 1,
    async flush(groups) {
      const stale = await writeUntilDone(groups.length === 1 ? (groups[0] as Outcome[]) : groups.flat());
      return groups.map(() => stale);
    },
  });

  return { report: (items) => gatherer.add(items), idle: () => gatherer.idle() };
}
