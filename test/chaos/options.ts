/** The options of a run of the fault suite, parsed and checked from the command line. */
import { parseArgs } from 'node:util';

/**
 * Controls: what can be removed, and the rules that must then be violated. A run that does not find all of them is
 * blind. The first three switch off a protection of the product, the others break the system from outside (see
 * controls.ts).
 */
export const FOUND_WITHOUT = {
  fencing: ['S3r'],
  'self-stop': ['S2'],
  beacon: ['S10'],
  journal: ['S8', 'L1'],
  'durable-insert': ['S1'],
  'one-ending': ['S4t', 'S2r'],
  'atomic-children': ['S6'],
} as const satisfies Record<string, readonly string[]>;
export type Control = keyof typeof FOUND_WITHOUT;
export const CONTROLS = Object.keys(FOUND_WITHOUT) as Control[];

export const FAULT_GROUPS = ['kill', 'pause', 'partition', 'slow', 'database', 'restart', 'clock'] as const;
export type FaultGroup = (typeof FAULT_GROUPS)[number];

export type ChaosOptions = {
  minutes: number;
  seed: number;
  mode: 'safety' | 'liveness';
  /** Who does harm: faults of machines and networks, or a hostile peer with a valid token beside healthy ones. */
  nemesis: 'faults' | 'hostile';
  /** Jobs added per second. */
  rate: number;
  servers: number;
  workers: number;
  without: Control[];
  faults: FaultGroup[];
  /** Keeps the database's folder after the run. Logs and records are always kept. */
  keep: boolean;
};

const NEMESES = ['faults', 'hostile'] as const;

/** What each nemesis has unless the options say otherwise. */
const NORMAL = {
  faults: { rate: '500', servers: '3', workers: '6', faults: FAULT_GROUPS.join(',') },
  hostile: { rate: '100', servers: '2', workers: '10', faults: '' },
} as const;

export const USAGE = `npm run chaos -- [options]
  --minutes N          how long faults are injected (default 2)
  --seed S             the plan of faults and the mix of jobs (default: any)
  --mode MODE          safety: faults heal; liveness: one server, one worker and the database stay whole,
                       everything else breaks forever, and all jobs must end (default safety)
  --nemesis WHO        faults; or hostile: a hostile peer attacks the servers beside honest workers, and no fault
                       happens (default faults)
  --rate N             jobs added per second (default 500; with --nemesis hostile 100)
  --servers N          (default 3; with --nemesis hostile 2)
  --workers N          (default 6; with --nemesis hostile 10)
  --faults LIST        of ${FAULT_GROUPS.join(', ')} (default: all)
  --without LIST       of ${CONTROLS.join(', ')}:
                       the run must then find what follows, and ends with exit code 0 if it does
  --keep               keep the database's folder too`;

export class UsageError extends Error {}

export function readOptions(args: string[]): ChaosOptions {
  const { values } = parse(args);
  const nemesis = oneOf('nemesis', values.nemesis ?? 'faults', NEMESES);
  const normal = NORMAL[nemesis];
  return {
    nemesis,
    minutes: numberOf('minutes', values.minutes ?? '2', 0.1, 24 * 60),
    seed: numberOf('seed', values.seed ?? String(Math.floor(Math.random() * 1e9)), 0, 2 ** 31),
    mode: oneOf('mode', values.mode ?? 'safety', ['safety', 'liveness']),
    rate: numberOf('rate', values.rate ?? normal.rate, 1, 100_000),
    servers: numberOf('servers', values.servers ?? normal.servers, 1, 20),
    workers: numberOf('workers', values.workers ?? normal.workers, 1, 100),
    without: listOf('without', values.without ?? '', CONTROLS),
    faults: listOf('faults', values.faults ?? normal.faults, FAULT_GROUPS),
    keep: values.keep ?? false,
  };
}

/** The command that repeats the run. */
export function commandOf(options: ChaosOptions): string {
  const { minutes, seed, mode, nemesis, rate, servers, workers, without, faults } = options;
  const flags = Object.entries({ minutes, seed, mode, nemesis, rate, servers, workers }).map(
    ([name, value]) => `--${name} ${value}`,
  );
  if (without.length > 0) flags.push(`--without ${without.join(',')}`);
  if (nemesis === 'faults' && faults.length < FAULT_GROUPS.length) flags.push(`--faults ${faults.join(',')}`);
  return `npm run chaos -- ${flags.join(' ')}`;
}

function parse(args: string[]) {
  const text = { type: 'string' } as const;
  try {
    return parseArgs({
      args,
      options: {
        ...{ minutes: text, seed: text, mode: text, nemesis: text, rate: text, servers: text, workers: text },
        ...{ without: text, faults: text, keep: { type: 'boolean' } as const },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function numberOf(name: string, value: string, min: number, max: number): number {
  const number = Number(value);
  if (Number.isFinite(number) && number >= min && number <= max) return number;
  throw new UsageError(`--${name}: expected a number from ${min} to ${max}, got ${value}`);
}

function oneOf<Value extends string>(name: string, value: string, known: readonly Value[]): Value {
  const found = known.find((entry) => entry === value);
  if (found !== undefined) return found;
  throw new UsageError(`--${name}: expected one of ${known.join(', ')}, got ${value}`);
}

function listOf<Value extends string>(name: string, value: string, known: readonly Value[]): Value[] {
  return value
    .split(',')
    .filter((entry) => entry !== '')
    .map((entry) => oneOf(name, entry, known));
}
