/** An acknowledged add is durable. Checked against the ledger of the load, which is on its own disk. */
import type { Rule } from './rule.js';

export const acknowledgedExists: Rule = {
  code: 'S1',
  promise: 'an acknowledged job exists',
  shows: ['V5', 'H1'],
  check({ ledger, jobById }, report) {
    for (const { id, mark, type, via } of ledger.jobs.values()) {
      if (mark !== 'acknowledged') continue;
      report.check(jobById.has(id), () => `${id} (${type}, by ${via}) was acknowledged and does not exist`);
    }
  },
};
