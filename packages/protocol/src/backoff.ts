/**
 * How long a job waits before its next attempt. Pure: the caller provides the random number, so a test can fix it.
 * The worker computes the delay without another machine's clock.
 */
import { z } from 'zod';
import { durationSchema, MAX_DURATION_MS } from './duration.js';
import { listSchema } from './fields.js';

const MAX_LISTED_DELAYS = 100;

const KIND_EXPECTED = 'expected "exponential", "fixed" or "list"';

const kinds = [
  z.strictObject({
    kind: z.literal('exponential'),
    /** Delay before the second attempt. */
    base: durationSchema.default(1000),
    /** Each further delay is this many times the one before. */
    factor: z.number().min(1).max(10).default(2),
    max: durationSchema.default(3_600_000),
    /** Share of the delay that is random: 0.2 means ±20 %. */
    jitter: z.number().min(0).max(1).default(0.2),
  }),
  z.strictObject({
    kind: z.literal('fixed'),
    delay: durationSchema,
    jitter: z.number().min(0).max(1).default(0),
  }),
  z.strictObject({
    kind: z.literal('list'),
    /** One delay per retry; the last one is used for all further ones. */
    delays: listSchema(durationSchema, { min: 1, max: MAX_LISTED_DELAYS }),
    jitter: z.number().min(0).max(1).default(0),
  }),
] as const;

export const backoffSchema = z.discriminatedUnion('kind', kinds, {
  error: ({ code }) => (code === 'invalid_union' ? KIND_EXPECTED : undefined),
});

/** As given by a user. */
export type BackoffInput = z.input<typeof backoffSchema>;
/** With every default filled in and every duration in milliseconds. */
export type Backoff = z.output<typeof backoffSchema>;

export const DEFAULT_BACKOFF: Backoff = { kind: 'exponential', base: 1000, factor: 2, max: 3_600_000, jitter: 0.2 };

/** Milliseconds to wait after attempt number `attempt` (the first is 1) has failed. `random` is in [0, 1). */
export function backoffDelayMs(backoff: Backoff, attempt: number, random: number): number {
  const delay = plainDelayMs(backoff, Math.max(1, attempt));
  const spread = delay * backoff.jitter;
  return Math.round(Math.min(MAX_DURATION_MS, delay - spread + 2 * spread * random));
}

function plainDelayMs(backoff: Backoff, attempt: number): number {
  switch (backoff.kind) {
    case 'fixed':
      return backoff.delay;
    case 'list':
      return backoff.delays[Math.min(attempt, backoff.delays.length) - 1] ?? 0;
    case 'exponential':
      // an overflow of the power times a base of 0 would be NaN
      return Math.min(backoff.max, backoff.base * Math.min(backoff.factor ** (attempt - 1), Number.MAX_VALUE));
  }
}
