/**
 * What every plan contains, whatever its seed: faults of which each is sure to do harm if a protection is missing. They are
 * the same in a run with all protections, which so shows that it is the protection that keeps the harm away.
 *
 * - `self-stop`: a worker whose handler heeds no signal is cut off until its job has been started elsewhere. The handler would
 *   go on beside the second one (S2).
 * - `fencing`: a worker is cut off, and its handler ends before its lease does, so that nothing stops it. The worker comes back
 *   with this outcome while the next attempt runs, and would end the job with it (S3r).
 * - `beacon`: the database, and after it all servers, stand still for longer than a lease. After the one, servers and workers
 *   are back at the same moment, and only those who were slower would be given up; after the other, the first server that
 *   goes on would give up the workers of the others (S10). So that some are left to be given up, not all workers take jobs
 *   whose handlers heed no signal: whoever runs one ends itself with its lease.
 *
 * Nothing else is broken before, meanwhile and after: the harm can have no other cause and no other fault can hide it.
 */
import { ALL_SERVERS, DATABASE, type Fault, HOLDERS } from './fault.js';
import type { FaultGroup } from './options.js';
import type { Random } from './random.js';

/** In leases, because that is what harm depends on. */
const FIRST_AT = 10;
const EVERY = 60;
/** The verdict on a worker takes lease and grace; then the next attempt must have begun before the cut is healed. */
const CUT_FOR = 2.5;
export const OUTAGE_FOR = 2.2;

const QUIET_BEFORE_MS = 10_000;
const QUIET_AFTER_MS = 8000;

type Episode = Required<Pick<Fault, 'shows' | 'kind' | 'on'>> & {
  group: FaultGroup;
  /** In leases from the first of them, with time for all to be well again in between. */
  after: number;
  lasting: number;
};

const EPISODES: readonly Episode[] = [
  {
    ...{ shows: ['self-stop', 'fencing'], group: 'partition', kind: 'cut off', on: HOLDERS },
    ...{ after: 0, lasting: CUT_FOR },
  },
  { ...{ shows: ['beacon'], group: 'database', kind: 'away', on: DATABASE }, ...{ after: 6, lasting: OUTAGE_FOR } },
  { ...{ shows: ['beacon'], group: 'pause', kind: 'pause', on: ALL_SERVERS }, ...{ after: 11, lasting: OUTAGE_FOR } },
];

/** The whole list at fixed moments, as often as it fits into the time. */
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
