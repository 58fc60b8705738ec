/**
 * Which faults happen, where, when and for how long. Pure: computed before the run from the seed alone. Besides the
 * episodes that every plan has, random faults: at most `MAX_AT_ONCE` overlap, a unit suffers one at a time, and one
 * server is always spared, so that the system can recover. Every fault heals.
 */

import type { FaultGroup } from '../options.js';
import type { Random } from '../random.js';
import type { Direction } from '../system/network.js';
import { disturbs, OUTAGE_FOR, planEpisodes } from './episodes.js';
import { ALL_SERVERS, DATABASE, type Fault } from './fault.js';

const MAX_AT_ONCE = 3;
const FIRST_AT_MS = 4000;
/** No fault begins in this time before the end of the plan. */
const QUIET_END_MS = 2000;

type Kind = {
  name: string;
  group: FaultGroup;
  on: 'server' | 'worker' | typeof DATABASE | typeof ALL_SERVERS;
  weight: number;
};

const KINDS: readonly Kind[] = [
  { name: 'kill', group: 'kill', on: 'server', weight: 3 },
  { name: 'kill', group: 'kill', on: 'worker', weight: 4 },
  { name: 'pause', group: 'pause', on: 'server', weight: 3 },
  { name: 'pause', group: 'pause', on: 'worker', weight: 5 },
  { name: 'cut off', group: 'partition', on: 'worker', weight: 6 },
  { name: 'cut off', group: 'partition', on: 'server', weight: 3 },
  { name: 'cut from the database', group: 'partition', on: 'server', weight: 3 },
  { name: 'slow', group: 'slow', on: 'worker', weight: 2 },
  { name: 'slow', group: 'slow', on: 'server', weight: 1 },
  { name: 'restart', group: 'database', on: DATABASE, weight: 2 },
  { name: 'away', group: 'database', on: DATABASE, weight: 1 },
  { name: 'freeze', group: 'database', on: DATABASE, weight: 1 },
  { name: 'roll', group: 'restart', on: ALL_SERVERS, weight: 0.7 },
  { name: 'leave', group: 'restart', on: 'worker', weight: 2 },
  { name: 'clock', group: 'clock', on: 'worker', weight: 1.5 },
  { name: 'clock', group: 'clock', on: 'server', weight: 1.5 },
  { name: 'clock', group: 'clock', on: DATABASE, weight: 0.7 },
];

type PlanInput = {
  random: Random;
  durationMs: number;
  leaseMs: number;
  groups: readonly FaultGroup[];
  servers: string[];
  workers: string[];
};

/** Pure: the same input gives the same plan. */
export function planFaults({ random, durationMs, leaseMs, groups, servers, workers }: PlanInput): Fault[] {
  const kinds = KINDS.filter(({ group }) => groups.includes(group));
  const total = kinds.reduce((sum, { weight }) => sum + weight, 0);
  const faults: Fault[] = [];
  if (kinds.length === 0) return faults;
  const episodes = planEpisodes(durationMs, leaseMs, groups, random.fork('episodes'));

  const busy = (atMs: number) => faults.filter((fault) => fault.atMs + fault.forMs + 1000 > atMs);
  for (let atMs = FIRST_AT_MS; atMs < durationMs - QUIET_END_MS; atMs += random.between(500, 4000)) {
    let roll = random.next() * total;
    const kind = kinds.find(({ weight }) => {
      roll -= weight;
      return roll < 0;
    });
    const long = random.next() < 0.6;
    const lasting = long ? random.between(1.2, 2.8) * leaseMs : random.between(0.1, 0.7) * leaseMs;
    const direction = random.pick<Direction>(['both', 'both', 'in', 'out']);
    const jump = random.pick([-3600, -30, 30, 600, 3600]);
    const how = random.pick(['fast', 'immediate'] as const);
    const name = random.pick(kind?.on === 'server' ? servers : workers);
    if (!kind) continue;
    const target = kind.on === 'server' || kind.on === 'worker' ? name : kind.on;
    const others = busy(atMs);
    if (others.length >= MAX_AT_ONCE || others.some((fault) => fault.target === target)) continue;
    if (kind.on === 'server' || kind.on === ALL_SERVERS) {
      const hurt = others.filter((fault) => fault.on === 'server' || fault.on === ALL_SERVERS);
      if (hurt.length >= servers.length - 1 || (kind.on === ALL_SERVERS && hurt.length > 0)) continue;
      if (hurt.some((fault) => fault.on === ALL_SERVERS)) continue;
    }
    const fault = {
      ...{ kind: kind.name, on: kind.on, target, atMs, direction, how },
      // what waits by the database's clock waits as long as the clock has jumped, so the jump is small
      jump: kind.on === DATABASE ? Math.sign(jump) * (5 + (Math.abs(jump) % 11)) : jump,
      forMs: kind.on === ALL_SERVERS ? servers.length * 4000 : kind.name === 'away' ? OUTAGE_FOR * leaseMs : lasting,
    };
    if (!episodes.some((episode) => disturbs(fault, episode))) faults.push(fault);
  }
  return [...faults, ...episodes].sort((one, other) => one.atMs - other.atMs);
}
