/** What users do after they have added a job: cancel it, wait for its result, retry it. */
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, JobCancelledError, JobFailedError } from '@drover/sdk';
import type { Random } from '../random.js';
import type { LedgerWriter } from './ledger-writer.js';
import type { PlannedJob } from './mix.js';

const RESULT_SHARE = 0.02;
const RETRY_SHARE = 0.3;
const RESULT_TIMEOUT = '20s';

export type FollowUps = { follow(job: PlannedJob): Promise<void> };

export function createFollowUps(client: Client, ledger: LedgerWriter, random: Random): FollowUps {
  async function awaitResult(id: string): Promise<string> {
    try {
      const result = (await client.job(id).result({ timeout: RESULT_TIMEOUT })) as { execution: string };
      return result.execution;
    } catch (error) {
      if (error instanceof JobFailedError) throw Object.assign(error, { code: 'failed' });
      if (error instanceof JobCancelledError) throw Object.assign(error, { code: 'cancelled' });
      throw error;
    }
  }

  return {
    async follow({ id, type }) {
      if (type === 'cancelled') {
        await delay(random.whole(0, 1500));
        await ledger.act('cancel', id, async () => (await client.job(id).cancel()).state);
        return;
      }
      const isRetried = type === 'broken' && random.next() < RETRY_SHARE;
      if (!isRetried && random.next() >= RESULT_SHARE) return;
      const { answer } = await ledger.act('result', id, () => awaitResult(id));
      if (isRetried && answer === 'failed')
        await ledger.act('retry', id, async () => (await client.job(id).retry()).state);
    },
  };
}
