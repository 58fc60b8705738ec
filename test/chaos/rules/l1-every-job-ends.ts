/**
 * Every job has ended. A `hold` job may be `unknown` if it cannot be known how its last grant ended, judged by what
 * was seen outside: which process had it, what the witness and the copy of its journal say, how the process ended.
 */
import { blockedMs, blockingOf } from '../evidence/blocked.js';
import { type Evidence, grantsOf, type Instance, type JobRecord, processKey, runsOf } from '../evidence/evidence.js';
import { grantKey, type JournalEntry } from '../evidence/journals.js';
import { describeRuns, type Execution } from '../evidence/witness.js';
import { isBrokenForever, ranMs } from '../system/units.js';
import type { Rule } from './rule.js';
import { JOURNAL_LAG_MS } from './s8-journal-delivered.js';

const FINISHED = ['succeeded', 'failed', 'cancelled'];

/** Why it cannot be known how the job ended. */
type Doubt =
  | 'died with its process'
  | 'died between journal and handler'
  | 'ended just before its process was killed'
  | 'its worker stays broken';

export const everyJobEnds: Rule = {
  code: 'L1',
  promise: 'every job has ended, or is unknown for a known reason',
  shows: ['D3', 'H1'],
  check(evidence, report) {
    const doubts = new Map<Doubt, number>();
    for (const job of evidence.jobs) {
      const doubt = job.state === 'unknown' ? doubtAbout(evidence, job) : undefined;
      if (doubt !== undefined) doubts.set(doubt, (doubts.get(doubt) ?? 0) + 1);
      report.check(doubt !== undefined || FINISHED.includes(job.state), () => {
        const about = `${job.type}, ${job.state}, attempt ${job.attempt}, fence ${job.fence}`;
        return `${job.id} (${about}): ${describeRuns(runsOf(evidence, job.id))}`;
      });
    }
    if (doubts.size > 0) report.note(`unknown: ${[...doubts].map(([doubt, count]) => `${count} ${doubt}`).join(', ')}`);
  },
};

function doubtAbout(evidence: Evidence, job: JobRecord): Doubt | undefined {
  const grant = grantsOf(evidence, job.id).at(-1);
  const instance = grant && evidence.instanceByProcess.get(processKey(grant));
  if (!job.holds || grant?.fence !== job.fence || instance === undefined) return undefined;
  const run = runsOf(evidence, job.id).find(({ fence }) => fence === grant.fence);
  const entry = evidence.journals.get(instance.key)?.get(grantKey(job.id, grant.fence));
  if (isBrokenForever(evidence.units, instance) && !hadTimeToTell(evidence, run, instance)) {
    return 'its worker stays broken';
  }
  return doubtOfDead(evidence, run, entry, instance);
}

/** `isBrokenForever`: an outcome that existed a lease before the unit broke must have been delivered. */
function hadTimeToTell({ units, leaseMs }: Evidence, run: Execution | undefined, { unit }: Instance): boolean {
  const brokenAt = units
    .find(({ name }) => name === unit)
    ?.troubles.find(({ what }) => what.startsWith('broken'))?.from;
  return run?.end !== undefined && brokenAt !== undefined && run.to < brokenAt - leaseMs;
}

function doubtOfDead(
  evidence: Evidence,
  run: Execution | undefined,
  entry: JournalEntry | undefined,
  instance: Instance,
): Doubt | undefined {
  const isDead = instance.exitedAt !== undefined && instance.ending !== 'code 0';
  if (!isDead || entry?.outcome !== undefined) return undefined;
  // The line of the journal is durable before the first line of the handler.
  if (run === undefined) return entry?.isStarted ? 'died between journal and handler' : undefined;
  if (run.end === undefined) return 'died with its process';
  const blocking = blockingOf([...evidence.executions.values()].flat()).filter((other) => other.instance === instance);
  const afterMs = ranMs(run.to, instance) - blockedMs({ from: run.to, to: Infinity }, blocking);
  return afterMs <= JOURNAL_LAG_MS ? 'ended just before its process was killed' : undefined;
}
