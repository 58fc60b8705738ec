/** What a handler can say when it does not succeed: try again, try again at this time, or never again. */
import { createClient, defineJob, JobFailedError, PermanentError, RetryAfter, snooze } from '@drover/sdk';
import { createWorker, handle } from '@drover/sdk/worker';

const fetchReport = defineJob<{ account: string }, string>({
  type: 'retries.fetch-report',
  maxAttempts: 5,
  backoff: { kind: 'exponential', base: '50ms', factor: 2 },
  timeout: '10s',
});

let isSnoozed = false;
const worker = createWorker({
  selfDestruct: true,
  handlers: [
    handle(fetchReport, async ({ payload, attempt, log }) => {
      if (payload.account === 'closed') throw new PermanentError('the account is closed');
      if (!isSnoozed) {
        isSnoozed = true;
        throw snooze('50ms'); // not ready yet; no attempt is used up
      }
      if (attempt === 1) throw new Error('connection reset'); // tried again after the back-off
      if (attempt === 2) throw new RetryAfter('100ms', 'rate limited'); // tried again when the other side says
      log.info({ account: payload.account }, 'report is there');
      return `report of ${payload.account} on attempt ${attempt}`;
    }),
  ],
});
await worker.start();

const client = createClient();
const good = await client.enqueue(fetchReport, { account: 'alice' });
console.log(await client.result(good, { timeout: '30s' }));

const bad = await client.enqueue(fetchReport, { account: 'closed' });
try {
  await client.result(bad, { timeout: '30s' });
} catch (error) {
  if (!(error instanceof JobFailedError)) throw error;
  console.log(`failed for good: ${error.error?.message}`);
}

await client.close();
await worker.stop();
