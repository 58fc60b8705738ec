/** Beside a hostile peer: no server needs more memory than this, whatever it is sent. */
import type { Rule } from './rule.js';

const MAX_BYTES = 1024 ** 3;

export const memoryStays: Rule = {
  code: 'H1',
  promise: 'a hostile peer does not take more than 1 GiB of a server',
  check({ assault }, report) {
    for (const { server, peakBytes } of assault?.servers ?? []) {
      const mebibytes = Math.round(peakBytes / 1024 ** 2);
      report.check(peakBytes > 0 && peakBytes < MAX_BYTES, () => `${server} had ${mebibytes} MiB`);
      report.note(`${server}: at most ${mebibytes} MiB`);
    }
  },
};
