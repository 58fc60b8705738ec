/**
 * The dispatcher loop of one server: free slots of its workers → one claim for all of them → one frame a
 * worker. One claim is under way at a time; slots that become free meanwhile go together in the next. When a claim
 * brings many jobs, the next one is sent before these are.
 *
 * What always holds: a job is sent to a worker only after the commit that made that worker its holder. A
 * grant that could not be sent is released. When the answer to a claim is lost, nobody knows what it
 * granted, so the sessions concerned are compared with the database before they are given more.
 *
 * It knows of work by being woken (an insert, a promotion, a hint from another server) and, because every
 * hint may be lost, by polling.
 */

import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { groupBy } from '../group-by.js';
import { type ClaimedJob, claimJobs } from '../lifecycle/claim.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseJobs } from '../lifecycle/release.js';
import type { Metrics } from '../metrics.js';
import { type PlannedGroup, planSlots } from './assign.js';
import { releaseUnknownGrants } from './reconcile.js';
import { freeSlots, type GrantedJob, type Session, suits } from './session.js';

export type Dispatcher = {
  start(): void;
  /** Resolves when no claim is under way. */
  stop(): Promise<void>;
  add(session: Session): void;
  remove(session: Session): void;
  readonly sessions: ReadonlyMap<string, Session>;
  /** There may be jobs to claim. */
  wake(): void;
  /** A worker takes more. Where nothing was waiting when last looked, that is no reason to look again. */
  offered(): void;
  /** A place for a job that is about to be inserted into a lane where nothing waits, if there is one. */
  reserve(queue: string, type: string): Session | undefined;
  /** Sends grants that are committed. The places must have been reserved. */
  deliver(session: Session, jobs: GrantedJob[]): void;
  /** What this session holds according to the database is not certain; compare before giving it more. */
  doubt(session: Session): void;
  /** Compares all sessions with the database, between two claims. Gives how many grants nobody knew of. */
  compareAll(): Promise<number>;
};

/** Jobs claimed for one group in one statement: more gain nothing, and the statement stays short. */
const CLAIM_LIMIT = 1000;
/** From so many jobs on, sending them takes long enough to let the database go on meanwhile. */
const MANY = 200;
/** Characters after which a frame is full. A job more is within what a worker takes: a payload has a limit too. */
const ASSIGN_LENGTH = 4 * 1024 * 1024;
const RETRY_AFTER_ERROR_MS = 500;

/** A session for which jobs are claimed, and for how many of its slots. */
type Involved = { session: Session; slots: number };

/** A claim that is under way. The slots are reserved until its answer is delivered. */
type Claim = { answer: Promise<ClaimedJob[]>; involved: Map<string, Involved> };

type DispatcherDeps = {
  db: Runner;
  serverId: string;
  logger: Logger;
  metrics: Pick<Metrics, 'granted'>;
  pollMs: number;
  publish: Publish;
  /** Whether jobs of this lane wait because somebody paused it, as far as this server knows. */
  isPaused(queue: string, type: string): boolean;
};

export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { db, serverId, logger, pollMs } = deps;
  const sessions = new Map<string, Session>();
  const doubtful = new Set<Session>();
  /** Who waits for a comparison of all sessions. */
  let comparisons: ((released: number) => void)[] = [];
  /** Groups whose lanes were empty when last looked at. */
  const drained = new Set<string>();
  let turn: Promise<void> | undefined;
  let wanted = false;
  let stopped = true;
  let poll: NodeJS.Timeout | undefined;

  function schedule(): void {
    wanted = true;
    if (turn || stopped) return;
    turn = runTurns().finally(() => {
      turn = undefined;
      // wanted since the last look, and before this: nobody else would see it until the next poll
      if (wanted) schedule();
    });
  }

  async function runTurns(): Promise<void> {
    // a microtask's pause gathers the offers and wake-ups of this turn of the event loop
    await Promise.resolve();
    while (wanted && !stopped) {
      wanted = false;
      try {
        await settleDoubts();
        await claimAll();
      } catch (error) {
        logger.error({ err: error }, 'claiming failed, trying again');
        await pause(RETRY_AFTER_ERROR_MS);
        wanted = true;
      }
    }
  }

  /** Claims until nothing was found or nobody takes more. */
  async function claimAll(): Promise<void> {
    let claim = startClaim();
    while (claim) {
      const claimed = await claim.answer;
      failpoint('claim.committed');
      const { involved } = claim;
      const jobsOf = bySession(claimed, involved.size);
      for (const id of jobsOf.keys()) drained.delete((involved.get(id) as Involved).session.groupKey);
      let next: Claim | undefined;
      if (claimed.length >= MANY && mayGoOn()) {
        // these places stay reserved; the database works on the next jobs while these are written and sent
        next = startClaim();
        await immediate();
      }
      giveBackPlaces(claim);
      if (claimed.length === 0) return;
      try {
        for (const [id, jobs] of jobsOf) send((involved.get(id) as Involved).session, jobs);
      } catch (error) {
        doubtAll(claim);
        if (next) await abandon(next);
        throw error;
      }
      failpoint('claim.sent');
      wanted = true;
      claim = next ?? (mayGoOn() ? startClaim() : undefined);
    }
  }

  /** Doubts are settled when no claim is under way. */
  function mayGoOn(): boolean {
    return !stopped && doubtful.size === 0 && comparisons.length === 0;
  }

  function startClaim(): Claim | undefined {
    const candidates = [...sessions.values()]
      .filter((session) => !drained.has(session.groupKey))
      .map((session) => ({ ...pick(session), free: freeSlots(session) }));
    const groups = planSlots(candidates, CLAIM_LIMIT);
    if (groups.length === 0) return undefined;

    const involved = countSlots(groups);
    for (const { session, slots } of involved.values()) session.reserved += slots;
    for (const { groupKey } of groups) drained.add(groupKey);
    const answer = claimJobs(db, groups);
    const claim = { answer, involved };
    // at once: it may fail while nobody awaits it yet
    answer.catch(() => {
      giveBackPlaces(claim);
      doubtAll(claim);
    });
    return claim;
  }

  function giveBackPlaces({ involved }: Claim): void {
    for (const { session, slots } of involved.values()) session.reserved -= slots;
  }

  /** Nobody knows what was granted, or what of it the workers have heard. */
  function doubtAll({ involved }: Claim): void {
    for (const { session } of involved.values()) doubtful.add(session);
    drained.clear();
  }

  /** What it has granted is found by the comparison. */
  async function abandon(claim: Claim): Promise<void> {
    const isGranted = await claim.answer.then(
      () => true,
      () => false,
    );
    if (!isGranted) return;
    giveBackPlaces(claim);
    doubtAll(claim);
  }

  function countSlots(groups: readonly PlannedGroup[]): Map<string, Involved> {
    const involved = new Map<string, Involved>();
    for (const { slots } of groups) {
      for (const id of slots) {
        const known = involved.get(id);
        if (known) known.slots += 1;
        else involved.set(id, { session: sessions.get(id) as Session, slots: 1 });
      }
    }
    return involved;
  }

  function send(session: Session, jobs: GrantedJob[]): void {
    if (session.closed) {
      giveBack(jobs);
      return;
    }
    deps.metrics.granted.inc(jobs.length);
    session.sent += jobs.length;
    let texts = '';
    for (const { id, fence, assignment } of jobs) {
      session.grants.set(id, { fence, isSettling: false });
      // added up, not joined: that would copy every assignment once more
      texts += texts === '' ? assignment : `,${assignment}`;
      if (texts.length < ASSIGN_LENGTH) continue;
      session.send(`{"kind":"assign","jobs":[${texts}]}`);
      texts = '';
    }
    if (texts !== '') session.send(`{"kind":"assign","jobs":[${texts}]}`);
  }

  /** The connection ended between the claim and the delivery. If this fails too, the next `hello` or the reconciler mends it. */
  function giveBack(jobs: GrantedJob[]): void {
    releaseJobs(db, jobs).then(deps.publish, (error: Error) =>
      logger.warn({ err: error, jobs: jobs.length }, 'undelivered jobs could not be handed back yet'),
    );
  }

  /**
   * Only here, where no claim of ours is under way: the grants of one that is are in the database before their
   * answer has come to us. How old a grant is proves nothing, since an answer may take any time.
   */
  async function settleDoubts(): Promise<void> {
    const waiting = comparisons;
    comparisons = [];
    const concerned = waiting.length > 0 ? [...sessions.values()] : [...doubtful];
    for (const session of concerned) doubtful.delete(session);
    let released = 0;
    try {
      const open = concerned.filter((session) => !session.closed);
      const changes = open.length > 0 ? await releaseUnknownGrants(db, serverId, open) : [];
      released = changes.length;
      deps.publish(changes);
    } catch (error) {
      for (const session of concerned) doubtful.add(session);
      throw error;
    } finally {
      for (const done of waiting) done(released);
    }
  }

  const dispatcher: Dispatcher = {
    sessions,
    start() {
      stopped = false;
      poll = setInterval(() => {
        if (anyFree()) dispatcher.wake();
      }, pollMs);
    },
    async stop() {
      stopped = true;
      clearInterval(poll);
      await turn;
      for (const done of comparisons.splice(0)) done(0);
    },
    add(session) {
      sessions.set(session.id, session);
      drained.delete(session.groupKey);
    },
    remove(session) {
      if (sessions.get(session.id) === session) sessions.delete(session.id);
      doubtful.delete(session);
    },
    wake() {
      drained.clear();
      if (sessions.size > 0) schedule();
    },
    offered: schedule,
    reserve(queue, type) {
      let best: Session | undefined;
      let bestFree = 0;
      const paused = deps.isPaused(queue, type);
      for (const session of sessions.values()) {
        const free = freeSlots(session);
        // only where nothing is known to wait, or the new job would overtake
        if (free <= bestFree || !drained.has(session.groupKey) || !suits(session, queue, type)) continue;
        if (paused && !session.ignoresPause) continue;
        best = session;
        bestFree = free;
      }
      if (best) best.reserved += 1;
      return best;
    },
    deliver(session, jobs) {
      session.reserved -= jobs.length;
      send(session, jobs);
    },
    doubt(session) {
      doubtful.add(session);
      schedule();
    },
    compareAll() {
      if (stopped) return Promise.resolve(0);
      return new Promise((resolve) => {
        comparisons.push(resolve);
        schedule();
      });
    },
  };

  function anyFree(): boolean {
    for (const session of sessions.values()) if (freeSlots(session) > 0) return true;
    return false;
  }

  return dispatcher;
}

/** Looking up a thousand ids is saved where there is but one. */
function bySession(claimed: ClaimedJob[], sessions: number): Map<string, ClaimedJob[]> {
  const [first] = claimed;
  return first && sessions === 1 ? new Map([[first.sessionId, claimed]]) : groupBy(claimed, (job) => job.sessionId);
}

function pick({ id, groupKey, types, queues, ignoresPause }: Session) {
  return { id, groupKey, types, queues, ignoresPause };
}

function immediate(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
