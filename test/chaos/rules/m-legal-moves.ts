/** The trigger that refuses illegal moves was never needed, by the logs of the servers and of PostgreSQL. */
import type { Rule } from './rule.js';

const COMPLAINTS = /illegal move of job|the fence of job|impossible counters of job/;

export const movesAreLegal: Rule = {
  code: 'M',
  promise: 'no illegal move was tried',
  check({ serverLog, databaseLog }, report) {
    const lines = [...serverLog, ...databaseLog].filter((line) => COMPLAINTS.test(line));
    report.check(lines.length === 0, () => `${lines.length} lines, the first: ${lines[0]?.slice(0, 300)}`);
  },
};
