/** Options and payload are stored and delivered byte for byte: in the row, and as the handler got them. */
import { runsOf } from '../evidence/evidence.js';
import type { Rule } from './rule.js';

const DEFAULTS = { queue: 'default', priority: 0, maxAttempts: 10, holds: false, timeoutMs: null };

export const storedAsSent: Rule = {
  code: 'S1o',
  promise: 'a job is stored and handed over as it was sent',
  check(evidence, report) {
    for (const sent of evidence.ledger.jobs.values()) {
      const job = evidence.jobById.get(sent.id);
      if (!job) continue;
      const wanted = { ...DEFAULTS, ...sent };
      // a retry by hand may allow one more attempt
      const isRetried = evidence.ledger.actionsOn(sent.id).some(({ kind }) => kind === 'retry');
      const isSame =
        job.type === sent.type &&
        job.queue === wanted.queue &&
        job.priority === wanted.priority &&
        (isRetried || job.maxAttempts === wanted.maxAttempts) &&
        job.holds === wanted.holds &&
        job.timeoutMs === wanted.timeoutMs &&
        job.payloadHash === sent.payloadHash;
      report.check(isSame, () => `sent ${JSON.stringify(sent)}, stored ${JSON.stringify(job)}`);
      const altered = runsOf(evidence, sent.id).find(({ payloadHash }) => payloadHash !== sent.payloadHash);
      report.check(altered === undefined, () => `${sent.id}: ${altered?.name} got another payload than was sent`);
    }
  },
};
