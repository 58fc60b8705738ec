/** Beside a hostile peer: others are still answered soon. */
import type { Rule } from './rule.js';

const MAX_P99_MS = 200;

export const eventLoopRuns: Rule = {
  code: 'H2',
  promise: 'a hostile peer delays the event loop by less than 200 ms (p99)',
  check({ assault }, report) {
    for (const { server, loopP99Ms } of assault?.servers ?? []) {
      report.check(loopP99Ms < MAX_P99_MS, () => `${server}: p99 was ${Math.round(loopP99Ms)} ms`);
      report.note(`${server}: p99 of the event loop's delay ${Math.round(loopP99Ms)} ms`);
    }
  },
};
