/**
 * A refused add created no job. Only clients that do not repeat a request mark it as refused; an SQL transaction that
 * was rolled back is refused too.
 */
import type { Rule } from './rule.js';

export const refusedIsAbsent: Rule = {
  code: 'S1f',
  promise: 'a refused job does not exist',
  check({ ledger, jobById }, report) {
    for (const { id, mark, type, via } of ledger.jobs.values()) {
      if (mark !== 'refused') continue;
      report.check(!jobById.has(id), () => `${id} (${type}, by ${via}) was refused and exists`);
    }
  },
};
