/** Durations as strings (`"30s"`, `"10m"`, `"2h"`, `"3d"`) or as milliseconds. */
import { z } from 'zod';

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** The longest duration. It keeps every sum of times within the range of a date. */
export const MAX_DURATION_MS = 3650 * UNIT_MS.d;

const DURATION_PATTERN = /^(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)$/;

export const DURATION_EXPECTED = 'a duration such as "30s", "10m", "2h", "3d", or milliseconds';

export type Duration = number | `${number}${keyof typeof UNIT_MS}`;

/** Milliseconds of a duration, or undefined if it is not one. */
export function parseDuration(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? parseText(value.trim()) : undefined;
  if (ms === undefined || !Number.isFinite(ms) || ms < 0 || ms > MAX_DURATION_MS) return undefined;
  return Math.round(ms);
}

function parseText(text: string): number | undefined {
  const match = DURATION_PATTERN.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

/** Formats milliseconds as the shortest exact string: `90000` → `"90s"`, `3600000` → `"1h"`. */
export function formatDuration(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms >= UNIT_MS[unit] && ms % UNIT_MS[unit] === 0) return `${ms / UNIT_MS[unit]}${unit}`;
  }
  return `${ms}ms`;
}

/** A field that takes a duration and yields milliseconds. */
export const durationSchema = z
  .union([z.string(), z.number()], { error: `expected ${DURATION_EXPECTED}` })
  .transform((value, context) => {
    const ms = parseDuration(value);
    if (ms !== undefined) return ms;
    context.issues.push({ code: 'custom', message: `expected ${DURATION_EXPECTED}`, input: value });
    return z.NEVER;
  });
