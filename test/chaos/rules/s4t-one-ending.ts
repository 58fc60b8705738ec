/**
 * A job ends once, plus once for each retry by a person. A client repeats a retry that was not answered; if the first
 * one was carried out and the job has failed again meanwhile, the repetition counts as another retry. That takes a
 * fault of a server or of the database while the client waited.
 */
import { overlapsSpan } from '../evidence/evidence.js';
import type { Rule } from './rule.js';

export const jobEndsOnce: Rule = {
  code: 'S4t',
  promise: 'a job ends once',
  shows: ['J2'],
  check(evidence, report) {
    const servers = evidence.units.filter(({ role }) => role === 'server');
    const troubles = [...servers.flatMap((server) => server.troubles), ...evidence.databaseTroubles];
    let repeated = 0;
    for (const [id, states] of evidence.endings) {
      const retries = evidence.ledger.actionsOn(id).filter(({ kind }) => kind === 'retry');
      const unsure = retries.filter(({ sentAt, answeredAt }) =>
        troubles.some((trouble) => overlapsSpan(trouble, sentAt, answeredAt)),
      );
      const isRight = states.length <= 1 + retries.length + unsure.length;
      if (isRight && states.length > 1 + retries.length) repeated += 1;
      report.check(isRight, () => `${id} ended ${states.length} times: ${states.join(', ')}`);
    }
    report.note(`${repeated} retries were carried out twice, because the first answer was lost in a fault`);
  },
};
