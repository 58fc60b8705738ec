/** What every plan of the fault suite contains, for any seed. */
import { describe, expect, test } from 'vitest';
import { FAULT_GROUPS, type FaultGroup } from '../options.js';
import { createRandom } from '../random.js';
import { HOLDERS } from './fault.js';
import { planFaults } from './plan.js';

const LEASE_MS = 3000;
const SEEDS = Array.from({ length: 200 }, (_, seed) => seed);

function planOf(seed: number, minutes = 3, groups: readonly FaultGroup[] = FAULT_GROUPS) {
  return planFaults({
    ...{ random: createRandom(seed), durationMs: minutes * 60_000, leaseMs: LEASE_MS, groups },
    ...{ servers: ['server1', 'server2', 'server3'], workers: ['worker1', 'worker2', 'worker3'] },
  });
}

describe('a plan', () => {
  test.each([2, 3, 30])('of %d minutes needs every protection', (minutes) => {
    for (const seed of SEEDS) {
      const shown = new Set(planOf(seed, minutes).flatMap(({ shows }) => shows ?? []));
      for (const protection of ['fencing', 'self-stop', 'beacon', 'journal']) expect(shown).toContain(protection);
    }
  });

  test('leaves everything else alone while it shows what a protection is for', () => {
    for (const seed of SEEDS) {
      const plan = planOf(seed);
      expect(plan.some(({ shows }) => shows === undefined)).toBe(true);
      for (const episode of plan.filter(({ shows }) => shows !== undefined)) {
        const { atMs, forMs } = episode;
        // a unit that was cut off comes back, and one that was hurt before has recovered
        const [from, to] = [atMs - LEASE_MS, atMs + forMs + 2 * LEASE_MS];
        const others = plan.filter((other) => other !== episode);
        expect(others.filter((other) => other.atMs < to && other.atMs + other.forMs > from)).toEqual([]);
      }
    }
  });

  test('cuts a worker off for longer than until its jobs are given to others', () => {
    const cuts = planOf(1).filter(({ on }) => on === HOLDERS);
    expect(cuts).toHaveLength(2);
    for (const { forMs } of cuts) expect(forMs).toBeGreaterThan(2 * LEASE_MS);
  });

  test('has only faults that were asked for', () => {
    const kinds = planOf(1, 3, ['kill']).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['kill', 'cut off and kill']));
  });

  test('is the same for the same seed', () => expect(planOf(7)).toEqual(planOf(7)));
});
