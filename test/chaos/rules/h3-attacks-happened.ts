/** The hostile peer made its attacks: one that never ran proves nothing. That workers kept their leases is S10. */
import type { Rule } from './rule.js';

export const attacksHappened: Rule = {
  code: 'H3',
  promise: 'the attacks of the hostile peer happened',
  check({ assault }, report) {
    for (const [attack, rounds] of Object.entries(assault?.attacks ?? {})) {
      report.check(rounds > 0, () => `${attack}: no round`);
      report.note(`${attack}: ${rounds} rounds`);
    }
  },
};
