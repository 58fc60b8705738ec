/** One fault with a start and an end. */

import type { Control } from '../options.js';
import type { Direction } from '../system/network.js';

export const DATABASE = 'database';
export const ALL_SERVERS = 'all servers';
/** The workers on which the planted jobs of this fault start. */
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
  /** The protections without which this fault certainly does harm. Absent for a random fault. */
  shows?: readonly Control[];
  /** Types of jobs that are planted first. The fault hits the workers on which they have started. */
  plants?: readonly PlantedType[];
};

export type PlantedType = 'stubborn' | 'outrun' | 'hold';

/** The result of one fault of the plan. `left out`: its target was not running, or it had no effect. */
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
