/**
 * How long after its nominal time an occurrence is due: the delay of the schedule within `spread`, plus the delay of the
 * occurrence within `jitter`. Both are hashed from names and times instead of drawn at random, so every server, every
 * preview and every retry gets the same answer.
 */
import { createHash } from 'node:crypto';

export type Delays = { spread?: number | undefined; jitter?: number | undefined };

export function delayOf(name: string, nominalMs: number, { spread, jitter }: Delays): number {
  return hashedWithin(spread, name) + hashedWithin(jitter, `${name} ${nominalMs}`);
}

/** From 0 to `range`, evenly distributed over many keys. */
function hashedWithin(range: number | undefined, key: string): number {
  if (!range) return 0;
  const bits = createHash('sha256').update(key).digest().readUInt32BE(0);
  return Math.floor((bits / 2 ** 32) * range);
}
