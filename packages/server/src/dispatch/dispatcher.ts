/**
 * The dispatcher loop of one server: free slots of its workers → one claim for all of them → one delivery per worker. One round
 * of claims is under way at a time; slots that become free meanwhile go together in the next.
 *
 * Invariants: a job is sent to a worker only after the commit that made that worker its holder. A grant that could not be sent is
 * released. When the answer to a claim is lost, its sessions are compared with the database before they get more (doubts.ts).
 *
 * It learns of work by being woken (an insert, a promotion, a hint from another server) and, because every hint may be lost, by
 * polling.
 */
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import type { Publish } from '../lifecycle/publish.js';
import type { GrantedJob } from '../sessions/channel.js';
import type { Sessions } from '../sessions/registry.js';
import { freeSlots, type Session, suits } from '../sessions/session.js';
import type { Metrics } from '../telemetry/metrics.js';
import { createClaimRound } from './claim-round.js';
import { createDelivery } from './deliver.js';
import { createDoubts } from './doubts.js';

export type Dispatcher = {
  start(): void;
  /** Resolves when no claim is under way. */
  stop(): Promise<void>;
  /** There may be jobs to claim. */
  wake(): void;
  /** A worker accepts more jobs. Lanes that were empty at the last claim are not read again for that. */
  offered(): void;
  /** A slot for a job that is about to be inserted into a lane where nothing waits, if there is one. */
  reserve(queue: string, type: string): Session | undefined;
  /** Sends grants that are committed. The slots must have been reserved. */
  deliver(session: Session, jobs: readonly GrantedJob[]): void;
  /** It is uncertain what this session holds in the database; compare before it gets more. */
  doubt(session: Session): void;
  /**
   * Compares all sessions with the database, between two claims. Returns how many grants their workers did not know.
   */
  compareAll(): Promise<number>;
};

const RETRY_AFTER_ERROR_MS = 500;

type DispatcherDeps = {
  db: Runner;
  serverId: string;
  sessions: Sessions;
  logger: Logger;
  metrics: Pick<Metrics, 'granted'>;
  pollMs: number;
  publish: Publish;
  /** Whether jobs of this lane wait because it is paused, as far as this server knows. */
  isPaused(queue: string, type: string): boolean;
};

export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { sessions, logger, pollMs } = deps;
  /** Groups whose lanes were empty at the last claim. */
  const drained = new Set<string>();
  const doubts = createDoubts(deps);
  const deliver = createDelivery(deps);
  const claimRound = createClaimRound({ ...deps, drained, doubts, deliver, isStopped: () => stopped });
  let turn: Promise<void> | undefined;
  let wanted = false;
  let stopped = true;
  let poll: NodeJS.Timeout | undefined;

  function schedule(): void {
    wanted = true;
    if (turn || stopped) return;
    turn = runTurns().finally(() => {
      turn = undefined;
      // wanted after the loop ended and before this: otherwise it would wait for the next poll
      if (wanted) schedule();
    });
  }

  async function runTurns(): Promise<void> {
    // a microtask's pause gathers the offers and wake-ups of this turn of the event loop
    await Promise.resolve();
    while (wanted && !stopped) {
      wanted = false;
      try {
        await doubts.settle();
        if (await claimRound()) wanted = true;
      } catch (error) {
        logger.error({ event: 'claim.failed', err: error }, 'claiming failed, trying again');
        await new Promise((resolve) => setTimeout(resolve, RETRY_AFTER_ERROR_MS));
        wanted = true;
      }
    }
  }

  function wake(): void {
    drained.clear();
    if (sessions.size > 0) schedule();
  }

  return {
    start() {
      stopped = false;
      poll = setInterval(() => {
        if (isAnyFree(sessions)) wake();
      }, pollMs);
    },
    async stop() {
      stopped = true;
      clearInterval(poll);
      await turn;
      doubts.stop();
    },
    wake,
    offered: schedule,
    reserve(queue, type) {
      const session = freestWorker(deps, drained, queue, type);
      if (session) session.reserved += 1;
      return session;
    },
    deliver(session, jobs) {
      session.reserved -= jobs.length;
      deliver(session, jobs);
    },
    doubt(session) {
      doubts.add(session);
      schedule();
    },
    compareAll() {
      if (stopped) return Promise.resolve(0);
      const compared = doubts.compareAll();
      schedule();
      return compared;
    },
  };
}

/** The worker with the most free slots that takes jobs of this lane, if nothing is known to wait there. */
function freestWorker(
  { sessions, isPaused }: Pick<DispatcherDeps, 'sessions' | 'isPaused'>,
  drained: ReadonlySet<string>,
  queue: string,
  type: string,
): Session | undefined {
  const paused = isPaused(queue, type);
  let best: Session | undefined;
  let bestFree = 0;
  for (const session of sessions.values()) {
    const free = freeSlots(session);
    // where a job may wait, a new one would overtake it
    if (free <= bestFree || !drained.has(session.groupKey)) continue;
    if (!suits(session, queue, type) || (paused && !session.ignoresPause)) continue;
    best = session;
    bestFree = free;
  }
  return best;
}

function isAnyFree(sessions: Sessions): boolean {
  for (const session of sessions.values()) if (freeSlots(session) > 0) return true;
  return false;
}
