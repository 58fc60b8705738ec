/** A job has one row, hot or finished. */
import type { Rule } from './rule.js';

export const jobExistsOnce: Rule = {
  code: 'S4',
  promise: 'a job exists once',
  shows: ['V1'],
  check({ jobs }, report) {
    const seen = new Set<string>();
    for (const { id } of jobs) {
      report.check(!seen.has(id), () => `${id} exists twice`);
      seen.add(id);
    }
  },
};
