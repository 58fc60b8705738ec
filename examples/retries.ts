/** What a handler can say when it does not succeed: try again, try again at this time, or never again. */
import { createClient, defineJob, JobFailedError, PermanentError, RetryAfter, snooze } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';

let isSnoozed = false;
const fetchReport = defineJob<{ account: string }, string>({
  type: 'retries.fetch-report',
  maxAttempts: 5,
  backoff: { kind: 'exponential', base: '50ms', factor: 2 },
  timeout: '10s',
  run: async ({ payload, attempt, log }) => {
    if (payload.account === 'closed') throw new PermanentError('the account is closed');
    if (!isSnoozed) {
      isSnoozed = true;
      throw snooze('50ms'); // not ready yet; no attempt is used up
    }
    if (attempt === 1) throw new Error('connection reset'); // tried again after the back-off
    if (attempt === 2) throw new RetryAfter('100ms', 'rate limited'); // tried again when the other side says
    log.info({ account: payload.account }, 'report is there');
    return `report of ${payload.account} on attempt ${attempt}`;
  },
});

const drover = createClient();
const worker = createWorker({ jobs: [fetchReport] });
await worker.start();

const good = await drover.enqueue(fetchReport, { account: 'alice' });
console.log(await good.result({ timeout: '30s' }));

const bad = await drover.enqueue(fetchReport, { account: 'closed' });
try {
  await bad.result({ timeout: '30s' });
} catch (error) {
  if (!(error instanceof JobFailedError)) throw error;
  console.log(`failed for good: ${error.error?.message}`);
}

await drover.close();
await worker.stop();
