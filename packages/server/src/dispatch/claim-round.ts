/**
 * Claims jobs for the free slots of this server's workers, one claim after the other, until nothing was found or no
 * worker takes more. When a claim returns many jobs, the next one is sent to the database before these are sent to
 * the workers.
 *
 * Invariants: the slots of a claim are reserved until its answer is delivered; when the answer is lost, its sessions
 * are doubtful.
 */
import { failpoint } from '@drover/protocol/test-points';
import { groupBy } from '../base/group-by.js';
import type { Runner } from '../db/database.js';
import { type ClaimedJob, claimJobs } from '../lifecycle/claim.js';
import type { Sessions } from '../sessions/registry.js';
import { freeSlots, type Session } from '../sessions/session.js';
import { type Candidate, type PlannedGroup, planSlots } from './assign.js';
import type { Deliver } from './deliver.js';
import type { Doubts } from './doubts.js';

/** Jobs claimed for one group in one statement. A larger limit gains nothing, and the statement stays short. */
const CLAIM_LIMIT = 1000;
/**
 * Characters that one claim should bring into the memory of this server. The size of jobs is known only afterwards, so
 * it is estimated from the claims before.
 */
const CLAIM_LENGTH = 32 * 1024 * 1024;
/** The length of a job, before the first claim. */
const FIRST_ESTIMATE = 32 * 1024;
/** With this many jobs, sending them takes long enough for the database to work on the next claim meanwhile. */
const MANY = 200;

/** A session for which jobs are claimed, and for how many of its slots. */
type Involved = { session: Session; slots: number };

/** A claim in progress. The slots are reserved until its answer is delivered. */
type Claim = { answer: Promise<ClaimedJob[]>; involved: Map<string, Involved> };

type ClaimRoundDeps = {
  db: Runner;
  sessions: Sessions;
  /** Groups whose lanes were empty at the last claim. */
  drained: Set<string>;
  doubts: Doubts;
  deliver: Deliver;
  isStopped(): boolean;
};

/** Returns the function that runs one round. Its result is whether any job was claimed. */
export function createClaimRound(deps: ClaimRoundDeps): () => Promise<boolean> {
  const { sessions, drained, doubts } = deps;
  let jobLength = FIRST_ESTIMATE;

  /** Large jobs count at once, small ones gradually. */
  function estimate(claimed: readonly ClaimedJob[]): void {
    if (claimed.length === 0) return;
    const total = claimed.reduce((sum, { assignment }) => sum + assignment.length, 0);
    jobLength = Math.max(total / claimed.length, jobLength / 2);
  }

  async function runRound(): Promise<boolean> {
    let isAnyClaimed = false;
    let claim = startClaim();
    while (claim) {
      const claimed = await claim.answer;
      estimate(claimed);
      failpoint('claim.committed');
      const jobsOf = bySession(claimed, claim.involved);
      for (const [{ groupKey }] of jobsOf) drained.delete(groupKey);
      let next: Claim | undefined;
      if (claimed.length >= MANY && mayContinue()) {
        // these slots stay reserved; the database works on the next jobs while these are written and sent
        next = startClaim();
        await immediate();
      }
      giveBackSlots(claim);
      if (claimed.length === 0) return isAnyClaimed;
      await deliverAll(claim, jobsOf, next);
      failpoint('claim.sent');
      isAnyClaimed = true;
      claim = next ?? (mayContinue() ? startClaim() : undefined);
    }
    return isAnyClaimed;
  }

  async function deliverAll(claim: Claim, jobsOf: Map<Session, ClaimedJob[]>, next: Claim | undefined): Promise<void> {
    try {
      for (const [session, jobs] of jobsOf) deps.deliver(session, jobs);
    } catch (error) {
      doubtAll(claim);
      if (next) await abandon(next);
      throw error;
    }
  }

  /** Doubts are settled when no claim is under way. */
  function mayContinue(): boolean {
    return !deps.isStopped() && !doubts.isAny();
  }

  function startClaim(): Claim | undefined {
    const candidates = [...sessions.values()].filter((session) => !drained.has(session.groupKey)).map(toCandidate);
    const limit = Math.min(CLAIM_LIMIT, Math.max(1, Math.floor(CLAIM_LENGTH / jobLength)));
    const groups = planSlots(candidates, limit);
    if (groups.length === 0) return undefined;

    const involved = countSlots(groups, sessions);
    for (const { session, slots } of involved.values()) session.reserved += slots;
    for (const { groupKey } of groups) drained.add(groupKey);
    const answer = claimJobs(deps.db, groups);
    const claim = { answer, involved };
    // at once: it may fail while nothing awaits it yet
    answer.catch(() => {
      giveBackSlots(claim);
      doubtAll(claim);
    });
    return claim;
  }

  /** It is unknown what was granted, and which grants have reached the workers. */
  function doubtAll({ involved }: Claim): void {
    for (const { session } of involved.values()) doubts.add(session);
    drained.clear();
  }

  /** The comparison will find the grants of this claim. */
  async function abandon(claim: Claim): Promise<void> {
    const isGranted = await claim.answer.then(
      () => true,
      () => false,
    );
    if (!isGranted) return;
    giveBackSlots(claim);
    doubtAll(claim);
  }

  return runRound;
}

function giveBackSlots({ involved }: Claim): void {
  for (const { session, slots } of involved.values()) session.reserved -= slots;
}

function countSlots(groups: readonly PlannedGroup[], sessions: Sessions): Map<string, Involved> {
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

/** With a single session, no lookup by id is needed. */
function bySession(claimed: ClaimedJob[], involved: Map<string, Involved>): Map<Session, ClaimedJob[]> {
  const sessionOf = (id: string) => (involved.get(id) as Involved).session;
  const [first] = claimed;
  if (first && involved.size === 1) return new Map([[sessionOf(first.sessionId), claimed]]);
  const byId = groupBy(claimed, (job) => job.sessionId);
  return new Map([...byId].map(([id, jobs]) => [sessionOf(id), jobs]));
}

function toCandidate(session: Session): Candidate {
  const { id, groupKey, types, queues, holdTypes, ignoresPause } = session;
  return { id, groupKey, types, queues, holdTypes, ignoresPause, free: freeSlots(session) };
}

function immediate(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
