/** The job types of `drover dev`: small enough to be understood at a glance, one for each thing to try. */
import { defineJob } from '@drover/sdk';
import { z } from 'zod';

const MAX_SLEEP_MS = 600_000;

export const hello = defineJob({
  type: 'hello',
  payload: z.object({ name: z.string() }),
  result: z.object({ greeting: z.string() }),
});

export const sleep = defineJob({
  type: 'sleep',
  payload: z.object({ ms: z.number().min(0).max(MAX_SLEEP_MS) }),
  result: z.object({ sleptMs: z.number() }),
});

/** Fails that many times, then succeeds. */
export const flaky = defineJob({
  type: 'flaky',
  payload: z.object({ failures: z.int().min(0) }),
  result: z.object({ attempts: z.int() }),
  backoff: { kind: 'fixed', delay: '1s' },
});

/** Kills its process, to see what becomes of the job. */
export const crash = defineJob({ type: 'crash', maxAttempts: 2 });
