/**
 * When an occurrence is due: its nominal time, the schedule's place in `spread` and its own place in `jitter`. Both are
 * made from names and times and not from chance, so every server, the preview and a repeated try agree.
 */
import { createHash } from 'node:crypto';

export type Delays = { spread?: number | undefined; jitter?: number | undefined };

export function dueTime(name: string, nominalMs: number, { spread, jitter }: Delays): number {
  return nominalMs + place(name, spread) + place(`${name} ${nominalMs}`, jitter);
}

/** From 0 to `range`, evenly over many texts. */
function place(text: string, range: number | undefined): number {
  if (!range) return 0;
  const bits = createHash('sha256').update(text).digest().readUInt32BE(0);
  return Math.floor((bits / 2 ** 32) * range);
}
