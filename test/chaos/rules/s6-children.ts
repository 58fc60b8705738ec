/**
 * Children exist if and only if the execution that enqueued them made its job succeed. The witness knows which
 * execution enqueued which children.
 */
import type { Rule } from './rule.js';

export const childrenFollowSuccess: Rule = {
  code: 'S6',
  promise: 'children exist if and only if their parent succeeded',
  shows: ['H5'],
  check({ executions, jobs, jobById }, report) {
    const parentOf = new Map<string, string>();
    for (const run of [...executions.values()].flat()) {
      if (run.children.length === 0) continue;
      const parent = jobById.get(run.id);
      const counts = parent?.state === 'succeeded' && parent.resultOf === run.name;
      for (const child of run.children) {
        if (counts) parentOf.set(child, run.id);
        const what = counts ? 'succeeded, and does not exist' : `did not succeed (${run.end ?? 'died'}), and exists`;
        report.check(jobById.has(child) === counts, () => `${child}: its parent ${run.id}, ${run.name}, ${what}`);
      }
    }
    for (const { id, parentId } of jobs) {
      if (parentId === null) continue;
      report.check(parentOf.get(id) === parentId, () => `${id} is a child of ${parentId}, which never enqueued it`);
    }
  },
};
