/** One thing that is broken for a while. */

import type { Control } from '../options.js';
import type { Direction } from '../system/network.js';

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
  /** The protections without which this fault is sure to do harm; absent for a fault at random. */
  shows?: readonly Control[];
  /** Types of jobs that are planted first; the fault is for the workers on which they have begun. */
  plants?: readonly PlantedType[];
};

export type PlantedType = 'stubborn' | 'outrun' | 'hold';

/** What became of one fault of the plan. `left out`: its target was not there to be hurt, or it had no effect. */
export type FaultResult = { fault: string; outcome: 'done' | 'left out' | 'failed'; why: string };

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
