/** The jobs of `drover dev`, one per feature to try. `drover dev` runs them as `drover worker` would run yours. */
import { setTimeout as delay } from 'node:timers/promises';
import { defineJob } from '@drover/sdk';
import { z } from 'zod';

const MAX_SLEEP_MS = 600_000;

export const hello = defineJob({
  type: 'hello',
  payload: z.object({ name: z.string() }),
  run: ({ payload }) => ({ greeting: `Hello, ${payload.name}` }),
});

export const sleep = defineJob({
  type: 'sleep',
  payload: z.object({ ms: z.number().min(0).max(MAX_SLEEP_MS) }),
  run: async ({ payload, signal }) => {
    await delay(payload.ms, undefined, { signal });
    return { sleptMs: payload.ms };
  },
});

/** Fails that many times, then succeeds. */
export const flaky = defineJob({
  type: 'flaky',
  payload: z.object({ failures: z.int().min(0) }),
  backoff: { kind: 'fixed', delay: '1s' },
  run: ({ payload, attempt }) => {
    if (attempt <= payload.failures) throw new Error(`failing on purpose, attempt ${attempt}`);
    return { attempts: attempt };
  },
});

/** Kills its process, to show what happens to the job. */
export const crash = defineJob({
  type: 'crash',
  maxAttempts: 2,
  run: () => {
    process.kill(process.pid, 'SIGKILL');
  },
});
