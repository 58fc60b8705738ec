/** A wake-up at any time in the dispatcher's turn causes a claim after it, without waiting for the poll. */
import { newId } from '@drover/protocol';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createDispatcher } from '../../src/dispatch/dispatcher.js';
import { createMetrics } from '../../src/telemetry/metrics.js';
import { sessionOf, sessionsOf } from '../support/session.js';

const NEVER_MS = 60_000;
/** More than a turn takes. */
const STEPS = 40;

test.each(Array.from({ length: STEPS }, (_, step) => step))('%i steps after the last one', async (steps) => {
  let isClaimed = false;
  const db = {
    run: async () => [],
    // a database with nothing to claim, which answers at once
    runTexts: async () => {
      isClaimed = true;
      return [];
    },
    copyIn: async () => {},
  };
  const logger = pino({ level: 'silent' });
  const options = {
    db,
    serverId: newId(),
    sessions: sessionsOf(sessionOf('t')),
    logger,
    metrics: createMetrics(),
    pollMs: NEVER_MS,
    isPaused: () => false,
    publish() {},
  };
  const dispatcher = createDispatcher(options);
  dispatcher.start();
  dispatcher.wake();
  for (let step = 0; step < steps; step++) await undefined;
  isClaimed = false;
  dispatcher.wake();
  await new Promise((resolve) => setImmediate(resolve));
  expect(isClaimed).toBe(true);
  await dispatcher.stop();
});
