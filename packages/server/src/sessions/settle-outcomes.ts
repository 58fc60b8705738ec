/** Settles outcomes that a worker reports: finds which belong to its grants, and which have been written before. */

import type { Grant, Outcome } from '@drover/protocol';
import { isSwitchedOff } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { JobTypes } from './job-types.js';
import { limitOutcome, type OutcomeLimits } from './limit-outcome.js';
import type { Outcomes } from './outcomes.js';
import { type HeldGrant, holds, type Session } from './session.js';

/** The result of a report. Outcomes that are named here need no repetition. */
export type Settled = {
  /** Written, and committed. */
  written: readonly Grant[];
  /** Those of `written` that changed nothing, by job id: the job was no longer at that grant. */
  tooLate: ReadonlySet<string>;
  /** Not this session's grants. */
  stale: readonly Grant[];
  /** Whether no outcome of the report has to be sent again. */
  isComplete: boolean;
};

export type SettlingDeps = {
  outcomes: Outcomes;
  logger: Logger;
  limits: OutcomeLimits;
  types: Pick<JobTypes, 'present'>;
};

type Report = {
  own: Outcome[];
  held: HeldGrant[];
  stale: Grant[];
  /** Writes in progress that include an outcome which is reported again. */
  earlier: Promise<boolean>[];
};

const NONE: ReadonlySet<string> = new Set();

/** Resolves after the commit; never rejects. */
export async function settleOutcomes(deps: SettlingDeps, session: Session, items: Outcome[]): Promise<Settled> {
  const { own, held, stale, earlier } = sortByHolder(session, items);
  const tooLate = own.length > 0 ? await write(deps, session, own, held) : NONE;
  const isRepeatedWritten = earlier.length === 0 || (await Promise.all(earlier)).every(Boolean);
  return {
    ...{ written: tooLate ? own : [], tooLate: tooLate ?? NONE, stale },
    isComplete: tooLate !== undefined && isRepeatedWritten,
  };
}

function sortByHolder(session: Session, items: Outcome[]): Report {
  const own: Outcome[] = [];
  const held: HeldGrant[] = [];
  const stale: Grant[] = [];
  let isRepeated = false;
  for (const item of items) {
    const grant = session.grants.get(item.id);
    const isHeld = grant?.fence === item.fence;
    if (!isHeld && !isSwitchedOff('fencing')) stale.push(item);
    else if (isHeld && grant.isSettling) isRepeated = true;
    else {
      own.push(item);
      if (isHeld) held.push(grant);
    }
  }
  return { own, held, stale, earlier: isRepeated ? [...session.settling] : [] };
}

/** Returns the ids that were too late, or undefined if the outcomes were not written. */
async function write(
  { outcomes, logger, limits, types }: SettlingDeps,
  session: Session,
  own: Outcome[],
  held: HeldGrant[],
): Promise<ReadonlySet<string> | undefined> {
  // only now, because two outcomes of one grant in one report are both written, and the database takes one of them
  for (const grant of held) setSettling(session, grant, true);
  const known = types.present();
  const writing = outcomes.report(own.map((item) => limitOutcome(item, limits, session.principal, known)));
  const settling = writing.then(
    () => true,
    () => false,
  );
  session.settling.add(settling);
  try {
    const tooLate = await writing;
    // a job that it handed back may have been granted to it again meanwhile
    for (const item of own) if (holds(session, item)) session.grants.delete(item.id);
    return tooLate;
  } catch (error) {
    logger.warn({ event: 'outcomes.failed', err: error }, 'outcomes were not written; the worker will send them again');
    return undefined;
  } finally {
    for (const grant of held) setSettling(session, grant, false);
    session.settling.delete(settling);
  }
}

function setSettling(session: Session, grant: HeldGrant, isSettling: boolean): void {
  if (grant.isSettling === isSettling) return;
  grant.isSettling = isSettling;
  session.settlingGrants += isSettling ? 1 : -1;
}
