/** A delayed job does not start early. Delays are counted by the database's clock, so a jump of that clock excuses it. */
import { type Evidence, overlapsSpan, runsOf } from '../evidence/evidence.js';
import type { Rule } from './rule.js';

/** The load notes the time just before it sends the request. */
const SLACK_MS = 20;

export const delayIsKept: Rule = {
  code: 'T1',
  promise: 'a delayed job does not start early',
  check(evidence, report) {
    let excused = 0;
    for (const { id, sentAt, delayMs } of evidence.ledger.jobs.values()) {
      const [first] = runsOf(evidence, id);
      if (delayMs === undefined || !first) continue;
      const earlyMs = sentAt + delayMs - SLACK_MS - first.from;
      const isExcused = earlyMs > 0 && hasClockJumped(evidence, sentAt, first.from);
      if (isExcused) excused += 1;
      report.check(
        earlyMs <= 0 || isExcused,
        () => `${id} was delayed by ${delayMs} ms and began ${earlyMs.toFixed(0)} ms early`,
      );
    }
    if (excused > 0) report.note(`${excused} began early because the clock of the database had jumped`);
  },
};

export function hasClockJumped({ databaseTroubles }: Evidence, start: number, end: number): boolean {
  return databaseTroubles.some((trouble) => trouble.what.startsWith('clock') && overlapsSpan(trouble, start, end));
}
