/**
 * What workers report, gathered over all of them and written by one statement per verb and batch; the
 * acknowledgement follows the commit. An outcome of a grant that is not the worker's changes nothing and is
 * acknowledged all the same, so a repeated or late report does no harm.
 *
 * If the database is away, the batch is sent again until it is back: the guards make that safe, and the
 * workers keep their copies until they are told.
 */
import type { Grant, Outcome } from '@drover/protocol';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { isPassing } from '../db/database-error.js';
import { failpoint } from '../failpoint.js';
import { createGatherer } from '../gather.js';
import { groupBy } from '../group-by.js';
import { completeJobs, completeJobsWithChildren } from '../lifecycle/complete.js';
import { failJobs } from '../lifecycle/fail.js';
import { loseGrants } from '../lifecycle/lose.js';
import { releaseJobs } from '../lifecycle/release.js';
import { snoozeJobs } from '../lifecycle/snooze.js';
import { stopJobs } from '../lifecycle/stop.js';
import type { AttemptEnding, FinishedState, Metrics } from '../metrics.js';
import { childRows } from './children.js';

export type Outcomes = {
  /** Resolves, after the commit, with the ids that were not this grant's any more. */
  report(items: Outcome[]): Promise<Set<string>>;
  idle(): Promise<void>;
};

type OutcomesDeps = {
  db: Runner;
  serverId: string;
  logger: Logger;
  metrics: Pick<Metrics, 'attempts'>;
  /** These jobs have ended. */
  onFinished(state: FinishedState, ids: readonly string[]): void;
  /** Jobs will be ready in this many milliseconds. */
  onQueued(inMs: number): void;
  signal: AbortSignal;
};

const MAX_OUTCOMES_A_BATCH = 2000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 2000;
/** Of the error that an outcome is replaced with when the database does not take it. */
const REFUSED_CODE = 'outcome_refused';

export function createOutcomes(deps: OutcomesDeps): Outcomes {
  const { db, serverId, logger, signal } = deps;
  const ended = (outcome: AttemptEnding, count: number) => deps.metrics.attempts.inc({ outcome }, count);

  /** Writes one batch and gives the ids that changed, or null for all of them. */
  async function write(items: Outcome[]): Promise<Set<string> | null> {
    failpoint('outcomes.before');
    // by the thousand these, and nothing else
    if (items.every(isPlainSuccess)) {
      const ids = await completeJobs(db, serverId, items);
      ended('succeeded', ids?.length ?? items.length);
      deps.onFinished('succeeded', ids ?? items.map((item) => item.id));
      return ids && new Set(ids);
    }
    const byKind = groupBy(items, kindOf);
    const succeeded = byKind.get('succeeded') ?? [];
    const changed = new Set<string>();
    const note = (ending: AttemptEnding, ids: readonly string[]) => {
      ended(ending, ids.length);
      for (const id of ids) changed.add(id);
    };
    if (succeeded.length > 0) {
      const ids = (await completeJobs(db, serverId, succeeded as Succeeded[])) ?? succeeded.map((item) => item.id);
      note('succeeded', ids);
      deps.onFinished('succeeded', ids);
    }
    const parents = byKind.get('parent') as Succeeded[] | undefined;
    if (parents) {
      const ids = await completeJobsWithChildren(
        db,
        serverId,
        parents.map((item) => ({ ...item, children: childRows(item) })),
      );
      note('succeeded', ids);
      deps.onFinished('succeeded', ids);
      deps.onQueued(0);
    }
    const failed = byKind.get('failed') as Extract<Outcome, { kind: 'failed' }>[] | undefined;
    if (failed) {
      const answer = await failJobs(
        db,
        serverId,
        failed.map((item) => ({ ...item, retryInMs: item.retryInMs })),
      );
      note('failed', answer.changed);
      deps.onFinished('failed', answer.failed);
      deps.onFinished('cancelled', answer.cancelled);
      deps.onQueued(Math.max(1, Math.min(...failed.map((item) => item.retryInMs ?? Number.POSITIVE_INFINITY))));
    }
    const snoozed = byKind.get('snoozed') as Extract<Outcome, { kind: 'snoozed' }>[] | undefined;
    if (snoozed) {
      note('snoozed', await snoozeJobs(db, snoozed));
      deps.onQueued(Math.max(1, Math.min(...snoozed.map((item) => item.inMs))));
    }
    const stopped = byKind.get('cancelled') as Extract<Outcome, { kind: 'cancelled' }>[] | undefined;
    if (stopped) {
      const ids = await stopJobs(db, serverId, stopped);
      note('cancelled', ids);
      deps.onFinished('cancelled', ids);
    }
    const lost = byKind.get('lost') as Grant[] | undefined;
    if (lost) {
      const answer = await loseGrants(db, serverId, lost);
      note('lost', answer.changed);
      deps.onFinished('failed', answer.failed);
      deps.onQueued(0);
    }
    const released = byKind.get('released') as Grant[] | undefined;
    if (released) {
      note(
        'released',
        await releaseJobs(
          db,
          released.map(({ id, fence }) => ({ id, fence })),
        ),
      );
      deps.onQueued(0);
    }
    return changed;
  }

  async function writeUntilDone(items: Outcome[]): Promise<Set<string>> {
    let waitMs = RETRY_MIN_MS;
    for (;;) {
      try {
        const changed = await write(items);
        failpoint('outcomes.committed');
        if (changed === null) return new Set();
        return new Set(items.filter((item) => !changed.has(item.id)).map((item) => item.id));
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

type Succeeded = Extract<Outcome, { kind: 'succeeded' }> & { result: string | undefined };

function isPlainSuccess(item: Outcome): item is Succeeded {
  return kindOf(item) === 'succeeded';
}

function kindOf(item: Outcome): Outcome['kind'] | 'parent' {
  return item.kind === 'succeeded' && item.children && item.children.length > 0 ? 'parent' : item.kind;
}
