/**
 * Outcomes that workers report, batched over all workers and written by one statement per verb and batch. The
 * acknowledgement follows the commit. An outcome of a grant that is no longer the worker's changes nothing and is
 * acknowledged too, so a repeated or late report does no harm.
 *
 * While the database is unavailable, the batch is sent again until it is back: the guards make that safe, and the
 * workers keep their copies until they are acknowledged.
 */
import type { Outcome } from '@drover/protocol';
import { createGatherer } from '@drover/protocol/gather';
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { isPassing } from '../db/database-error.js';
import { replicationBarrier } from '../db/replication-barrier.js';
import { splitBatch } from '../db/split-batch.js';
import type { Change } from '../lifecycle/change.js';
import { completeJobs, completeJobsWithChildren } from '../lifecycle/complete.js';
import { failJobs } from '../lifecycle/fail.js';
import { loseGrants } from '../lifecycle/lose.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseJobs } from '../lifecycle/release.js';
import { snoozeJobs } from '../lifecycle/snooze.js';
import { stopJobs } from '../lifecycle/stop.js';
import { childrenOf } from './children.js';
import { REFUSED_CODE } from './limit-outcome.js';

/** The ids of jobs that were no longer at these grants. */
type Stale = ReadonlySet<string>;

export type Outcomes = {
  /** Resolves after the commit. */
  report(items: Outcome[]): Promise<Stale>;
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

export function createOutcomes(deps: OutcomesDeps): Outcomes {
  const { db, serverId, logger, signal } = deps;

  /** Writes one batch and returns the ids that did not change, because they were no longer at these grants. */
  async function write(items: readonly Outcome[]): Promise<Set<string>> {
    failpoint('outcomes.before');
    const changed = new Set<string>();
    for (const kind of KINDS) {
      for (const { id } of await writeKind(kind, items)) changed.add(id);
    }
    return new Set(items.flatMap(({ id }) => (changed.has(id) ? [] : id)));
  }

  async function writeKind<Name extends Kind>(kind: Name, items: readonly Outcome[]): Promise<Change[]> {
    const own = items.filter(isOfKind(kind));
    if (own.length === 0) return [];
    const changes = await VERBS[kind](db, serverId, own);
    deps.publish(changes);
    return changes;
  }

  async function writeUntilDone(items: readonly Outcome[]): Promise<Set<string>> {
    let waitMs = RETRY_MIN_MS;
    for (;;) {
      try {
        const stale = await write(items);
        // an earlier try, of this server or another one, may be committed on the primary alone
        if (stale.size > 0) await replicationBarrier(db);
        failpoint('outcomes.committed');
        return stale;
      } catch (error) {
        if (!isPassing(error) || signal.aborted) throw error;
        logger.warn(
          { event: 'outcomes.retried', err: error, outcomes: items.length },
          'outcomes could not be written, trying again',
        );
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        waitMs = Math.min(RETRY_MAX_MS, waitMs * 2);
      }
    }
  }

  /** Reports of several workers. An outcome that the database refuses is written by itself. */
  async function writeReports(reports: readonly Outcome[][]): Promise<(Stale | Error)[]> {
    const results = await splitBatch<Outcome, Stale>(reports.flat(), {
      async run(some) {
        const stale = await writeUntilDone(some);
        return some.map(() => stale);
      },
      refuse,
    });
    let from = 0;
    return reports.map(({ length }) => {
      from += length;
      return together(results.slice(from - length, from));
    });
  }

  /** Its job fails with the reason. */
  function refuse(outcome: Outcome, error: Error): Promise<Stale> | Stale {
    const { id, fence } = outcome;
    logger.error({ event: 'outcome.refused', err: error, job: id }, 'outcome was refused by the database');
    // this one is our own: if even that is refused, the job is left to be handed back
    if (outcome.kind === 'failed' && outcome.error.code === REFUSED_CODE) return new Set([id]);
    // the words of the database stay in the log: they may name values of others
    const message = 'the database refused the outcome; the log of the server has the reason';
    const refused = { name: 'OutcomeRefusedError', code: REFUSED_CODE, message };
    return writeUntilDone([{ id, fence, kind: 'failed', runMs: 0, error: refused }]);
  }

  const gatherer = createGatherer<Outcome[], Stale>({
    weigh: (items) => items.length,
    maxWeight: MAX_OUTCOMES_A_BATCH,
    // one at a time: batches of one server would wait for each other at the rollup rows
    concurrency: 1,
    flush: writeReports,
  });

  return { report: (items) => gatherer.add(items), idle: () => gatherer.idle() };
}

/** The result of a report. Its outcomes usually share one. */
function together(results: readonly (Stale | Error)[]): Stale | Error {
  const [first, ...others] = new Set(results);
  if (first === undefined || others.length === 0) return first ?? new Set();
  const stale = new Set<string>();
  for (const result of [first, ...others]) {
    if (result instanceof Error) return result;
    for (const id of result) stale.add(id);
  }
  return stale;
}
