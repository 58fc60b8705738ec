/** Each grant of a job has a larger fence than the one before. */
import type { Rule } from './rule.js';

export const fenceGrows: Rule = {
  code: 'S3',
  promise: 'the fence of a job grows with every grant',
  shows: ['D8'],
  check({ grants }, report) {
    for (const [id, list] of grants) {
      for (const [index, { fence }] of list.entries()) {
        const before = list[index - 1]?.fence ?? 0;
        report.check(fence > before, () => `${id}: fence ${before} was followed by ${fence}`);
      }
    }
  },
};
