/** All rules that are checked on a run, in the order of the report. */
import type { Evidence } from '../evidence/evidence.js';
import { cancelHolds } from './c1-cancel-holds.js';
import { undeliveredUsesNoAttempt } from './d9-no-attempt-for-undelivered.js';
import { repairsExplained } from './d10-repairs-explained.js';
import { faultsHappened } from './f-faults-happened.js';
import { memoryStays } from './h1-memory-stays.js';
import { eventLoopRuns } from './h2-event-loop-runs.js';
import { attacksHappened } from './h3-attacks-happened.js';
import { everyJobEnds } from './l1-every-job-ends.js';
import { everythingDrains } from './l2-drained.js';
import { everyoneRecovers } from './l3-recovered.js';
import { serversStay } from './l4-servers-stay.js';
import { movesAreLegal } from './m-legal-moves.js';
import { pauseHolds } from './p5-pause-holds.js';
import { resultIsAnswered } from './r1-result-answer.js';
import { applyRule, type Finding, type Rule } from './rule.js';
import { acknowledgedExists } from './s1-acknowledged-exists.js';
import { refusedIsAbsent } from './s1f-refused-absent.js';
import { storedAsSent } from './s1o-stored-as-sent.js';
import { onePlace } from './s2-one-place.js';
import { heldIsNotRepeated } from './s2h-held-not-repeated.js';
import { repetitionExplained } from './s2r-repetition-explained.js';
import { fenceGrows } from './s3-fence-grows.js';
import { executionIsGranted } from './s3g-execution-granted.js';
import { resultIsOfLastGrant } from './s3r-result-of-last-grant.js';
import { jobExistsOnce } from './s4-job-once.js';
import { attemptsKeepLimits } from './s4a-attempt-limits.js';
import { executionIsAJob } from './s4e-execution-is-a-job.js';
import { jobEndsOnce } from './s4t-one-ending.js';
import { occurrencesAccountedFor } from './s5-occurrences.js';
import { childrenFollowSuccess } from './s6-children.js';
import { journalIsDelivered } from './s8-journal-delivered.js';
import { successWasSeen } from './s9-success-seen.js';
import { failureWasSeen } from './s9f-failure-seen.js';
import { deadByOwnFault } from './s10-declared-dead.js';
import { delayIsKept } from './t1-delay.js';
import { expiryIsKept } from './t2-expiry.js';
import { timeoutIsKept } from './t3-timeout.js';

export const RULES: readonly Rule[] = [
  ...[acknowledgedExists, refusedIsAbsent, storedAsSent],
  ...[onePlace, repetitionExplained, heldIsNotRepeated],
  ...[fenceGrows, executionIsGranted, resultIsOfLastGrant],
  ...[jobExistsOnce, attemptsKeepLimits, executionIsAJob, jobEndsOnce],
  ...[
    occurrencesAccountedFor,
    childrenFollowSuccess,
    journalIsDelivered,
    successWasSeen,
    failureWasSeen,
    deadByOwnFault,
  ],
  ...[undeliveredUsesNoAttempt, repairsExplained],
  ...[cancelHolds, pauseHolds, resultIsAnswered, delayIsKept, expiryIsKept, timeoutIsKept],
  ...[everyJobEnds, everythingDrains, everyoneRecovers, serversStay, movesAreLegal, faultsHappened],
  ...[memoryStays, eventLoopRuns, attacksHappened],
];

export function checkRules(evidence: Evidence): Finding[] {
  return RULES.map((rule) => applyRule(rule, evidence));
}
