/**
 * A handler in its own process. It reports every few milliseconds that it is alive, because the supervisor cannot see
 * its end.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { defineJob } from '@drover/sdk';
import { note, now, witnessed } from './witnessed.mjs';

const ALIVE_EVERY_MS = 50;

export const isolated = witnessed(
  defineJob({ type: 'isolated', isolation: { kind: 'process', grace: '500ms' } }),
  async ({ payload, signal }, execution) => {
    const alive = setInterval(() => note('t', execution, now()), ALIVE_EVERY_MS);
    try {
      await delay(payload.ms, undefined, { signal });
    } finally {
      clearInterval(alive);
    }
  },
  { module: import.meta.url },
);
