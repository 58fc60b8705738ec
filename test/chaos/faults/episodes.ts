/**
 * Faults that are part of every plan: they certainly do harm if a protection is missing. A run with all protections
 * has the same faults, which shows that the protection prevents the harm.
 *
 * - `self-stop`: a worker whose handler ignores its signal is cut off until its job has been started elsewhere. The
 *   handler would run at the same time as the second one (S2).
 * - `fencing`: a worker is cut off, and its handler ends before its lease does, so that nothing stops it. The worker
 *   comes back with this outcome while the next attempt runs, and would end the job with it (S3r).
 * - `journal`: a worker is cut off, the handler of a `hold` job ends meanwhile, and its process is killed. Only the
 *   journal knows the outcome, and the next process delivers it (S8).
 * - `beacon`: the database, and after it all servers, are frozen for longer than a lease. Servers and workers return
 *   at the same time from the first, and the slower ones would be declared dead; after the second, the first server
 *   that resumes would declare the workers of the others dead (S10). Some workers must be left for that, so not all
 *   take jobs whose handlers ignore their signal: a worker that runs one ends itself with its lease.
 *
 * No other fault happens before, during or after them: the harm has no other cause, and no other fault can hide it.
 */

import type { FaultGroup } from '../options.js';
import type { Random } from '../random.js';
import { ALL_SERVERS, DATABASE, type Fault, HOLDERS } from './fault.js';

/** In leases, because the harm depends on them. */
const FIRST_AT = 10;
const EVERY = 60;
/** A worker is declared dead after lease and grace; then the next attempt must have begun before the cut is healed. */
const CUT_FOR = 2.5;
export const OUTAGE_FOR = 2.2;

const QUIET_BEFORE_MS = 10_000;
const QUIET_AFTER_MS = 8000;

type Episode = Required<Pick<Fault, 'shows' | 'kind' | 'on'>> &
  Pick<Fault, 'plants'> & {
    group: FaultGroup;
    /** In leases from the first of them, with time for all to recover in between. */
    after: number;
    lasting: number;
  };

const EPISODES: readonly Episode[] = [
  {
    ...{ shows: ['self-stop', 'fencing'], group: 'partition', kind: 'cut off', on: HOLDERS },
    ...{ plants: ['stubborn', 'outrun'], after: 0, lasting: CUT_FOR },
  },
  {
    ...{ shows: ['journal'], group: 'kill', kind: 'cut off and kill', on: HOLDERS },
    ...{ plants: ['hold'], after: 6, lasting: CUT_FOR },
  },
  { ...{ shows: ['beacon'], group: 'database', kind: 'away', on: DATABASE }, ...{ after: 12, lasting: OUTAGE_FOR } },
  { ...{ shows: ['beacon'], group: 'pause', kind: 'pause', on: ALL_SERVERS }, ...{ after: 17, lasting: OUTAGE_FOR } },
];

/** The whole list at fixed times, repeated as often as it fits. */
export function planEpisodes(
  durationMs: number,
  leaseMs: number,
  groups: readonly FaultGroup[],
  random: Random,
): Fault[] {
  const length = Math.max(...EPISODES.map(({ after, lasting }) => after + lasting));
  const faults: Fault[] = [];
  for (let first = FIRST_AT; (first + length) * leaseMs + QUIET_AFTER_MS < durationMs; first += EVERY) {
    for (const { group, after, lasting, ...what } of EPISODES) {
      const how = random.pick(['fast', 'immediate'] as const);
      const span = { atMs: (first + after) * leaseMs, forMs: lasting * leaseMs };
      if (groups.includes(group)) faults.push({ ...what, target: what.on, ...span, how, direction: 'both', jump: 0 });
    }
  }
  return faults;
}

export function disturbs({ atMs, forMs }: Fault, episode: Fault): boolean {
  return atMs < episode.atMs + episode.forMs + QUIET_AFTER_MS && atMs + forMs > episode.atMs - QUIET_BEFORE_MS;
}
