/** The handlers of the sample job types: `drover dev` runs them as `drover worker` would run yours. */
import { setTimeout as delay } from 'node:timers/promises';
import { handle } from '@drover/sdk/worker';
import { crash, flaky, hello, sleep } from './jobs.js';

export const handlers = [
  handle(hello, ({ payload }) => ({ greeting: `Hello, ${payload.name}` })),

  handle(sleep, async ({ payload, signal }) => {
    await delay(payload.ms, undefined, { signal });
    return { sleptMs: payload.ms };
  }),

  handle(flaky, ({ payload, attempt }) => {
    if (attempt <= payload.failures) throw new Error(`failing on purpose, attempt ${attempt}`);
    return { attempts: attempt };
  }),

  handle(crash, () => {
    process.kill(process.pid, 'SIGKILL');
    return undefined;
  }),
];
