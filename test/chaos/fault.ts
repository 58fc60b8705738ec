/** One thing that is broken for a while. */
import type { Direction } from './network.js';
import type { Switch } from './options.js';

export const DATABASE = 'database';
export const ALL_SERVERS = 'all servers';
/** The workers on which the jobs begin that are planted for this fault. */
export const HOLDERS = 'the workers of planted jobs';

export type Fault = {
  kind: string;
  on: 'server' | 'worker' | typeof DATABASE | typeof ALL_SERVERS | typeof HOLDERS;
  target: string;
  atMs: number;
  forMs: number;
  direction: Direction;
  /** For clocks, in seconds. */
  jump: number;
  /** For the database. */
  how: 'fast' | 'immediate';
  /** The protections without which this fault is sure to do harm; none of a fault at random. */
  shows?: readonly Switch[];
};

export function describeFault({ kind, target, forMs, direction, jump, how }: Fault): string {
  const more = kind.startsWith('cut')
    ? ` (${direction})`
    : kind === 'clock'
      ? ` (${jump} s)`
      : kind === 'restart'
        ? ` (${how})`
        : '';
  return `${kind} ${target}${more} for ${(forMs / 1000).toFixed(1)} s`;
}
