/**
 * Machines for the run: a network namespace each, on two bridges that live in a namespace of their own.
 *
 * ```
 *   workers ──┐                 ┌── servers ──┐
 *             ├── front bridge ─┤             ├── back bridge ── PostgreSQL
 *   load    ──┘                 └─────────────┘
 * ```
 * Workers have no leg in the back network, so they cannot reach the database. The host gets one leg in each, for the
 * load, the database and the checker; nothing else on it changes. All names contain our process id, so the next run
 * finds and removes what a killed run has left.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PREFIX = 'drover-chaos-';

/** Which packets a cut drops: all, incoming or outgoing. */
export type Direction = 'both' | 'in' | 'out';

export type Machine = {
  readonly namespace: string;
  readonly address: string;
  /** The address from which it reaches the database. Null if it has no leg there. */
  readonly backAddress: string | null;
  cut(leg: Leg, direction: Direction): Promise<void>;
  /** Returns how many packets the cut has dropped. */
  heal(leg: Leg, direction: Direction): Promise<number>;
  /** Limits the outgoing traffic of the leg. */
  slow(leg: Leg, kilobits: number): Promise<void>;
  hurry(leg: Leg): Promise<void>;
  /** To every process of the machine. */
  signalAll(signal: NodeJS.Signals): Promise<void>;
};
export type Leg = 'front' | 'back';

export type Network = {
  /** The host's address in the back network, where the database listens. */
  readonly databaseAddress: string;
  /** The addresses from which the database is used. */
  readonly backSubnet: string;
  addMachine(name: string, legs: readonly Leg[]): Promise<Machine>;
  remove(): Promise<void>;
};

export async function createNetwork(): Promise<Network> {
  await removeLeftovers();
  const owner = process.pid;
  const subnet = { front: `10.201.${owner % 250}`, back: `10.202.${owner % 250}` };
  const hub = `${PREFIX}${owner}-hub`;
  const namespaces = [hub];
  const hostLeg = (leg: Leg) => `dc${leg[0]}${owner}`;
  let machines = 0;

  await ip(['netns', 'add', hub]);
  for (const leg of ['front', 'back'] as const) {
    await ip(['-n', hub, 'link', 'add', leg, 'type', 'bridge']);
    await ip(['-n', hub, 'link', 'set', leg, 'up']);
    await ip(['link', 'add', hostLeg(leg), 'type', 'veth', 'peer', 'name', `host-${leg}`, 'netns', hub]);
    await ip(['-n', hub, 'link', 'set', `host-${leg}`, 'master', leg, 'up']);
    await ip(['addr', 'add', `${subnet[leg]}.254/24`, 'dev', hostLeg(leg)]);
    await ip(['link', 'set', hostLeg(leg), 'up']);
  }

  return {
    databaseAddress: `${subnet.back}.254`,
    backSubnet: `${subnet.back}.0/24`,
    async addMachine(name, legs) {
      const namespace = `${PREFIX}${owner}-${name}`;
      machines += 1;
      await ip(['netns', 'add', namespace]);
      namespaces.push(namespace);
      await ip(['-n', namespace, 'link', 'set', 'lo', 'up']);
      for (const leg of legs) {
        const peer = `${name}-${leg}`;
        await ip(['link', 'add', leg, 'netns', namespace, 'type', 'veth', 'peer', 'name', peer, 'netns', hub]);
        await ip(['-n', hub, 'link', 'set', peer, 'master', leg, 'up']);
        await ip(['-n', namespace, 'addr', 'add', `${subnet[leg]}.${machines}/24`, 'dev', leg]);
        await ip(['-n', namespace, 'link', 'set', leg, 'up']);
      }
      const backAddress = legs.includes('back') ? `${subnet.back}.${machines}` : null;
      return createMachine(namespace, `${subnet.front}.${machines}`, backAddress);
    },
    async remove() {
      for (const leg of ['front', 'back'] as const) await ip(['link', 'del', hostLeg(leg)]).catch(() => {});
      // already gone, as intended
      for (const namespace of namespaces) await ip(['netns', 'del', namespace]).catch(() => {});
    },
  };
}

function createMachine(namespace: string, address: string, backAddress: string | null): Machine {
  const inside = (...command: string[]) => run('ip', ['netns', 'exec', namespace, ...command]);
  /** The two chains, with the option that names the leg in each. */
  const chainsOf = (direction: Direction): [chain: string, leg: string][] => [
    ...(direction === 'out' ? [] : ([['INPUT', '-i']] as [string, string][])),
    ...(direction === 'in' ? [] : ([['OUTPUT', '-o']] as [string, string][])),
  ];
  const tc = (action: string, leg: Leg, ...more: string[]) =>
    inside('tc', 'qdisc', action, 'dev', leg, 'root', ...more).then(() => {});
  return {
    namespace,
    address,
    backAddress,
    async cut(leg, direction) {
      for (const [chain, word] of chainsOf(direction))
        await inside('iptables', '-w', '-I', chain, word, leg, '-j', 'DROP');
    },
    async heal(leg, direction) {
      let dropped = 0;
      for (const [chain, word] of chainsOf(direction)) {
        const { stdout } = await inside('iptables', '-w', '-L', chain, '-v', '-x', '-n');
        dropped += droppedPackets(stdout);
        await inside('iptables', '-w', '-D', chain, word, leg, '-j', 'DROP');
      }
      return dropped;
    },
    slow: (leg, kilobits) => tc('replace', leg, 'tbf', 'rate', `${kilobits}kbit`, 'burst', '8kb', 'latency', '2s'),
    hurry: (leg) => tc('del', leg),
    async signalAll(signal) {
      const { stdout } = await run('ip', ['netns', 'pids', namespace]);
      for (const pid of stdout.split('\n').filter(Boolean).map(Number)) if (isAlive(pid)) process.kill(pid, signal);
    },
  };
}

/** Packets counted by the first rule of a chain, as `iptables -L -v -x` lists it. */
function droppedPackets(listing: string): number {
  const [, , first = ''] = listing.split('\n');
  return Number(/^\s*(\d+)/.exec(first)?.[1] ?? 0);
}

/** Removes namespaces and processes of runs whose owner is gone. Their names identify them as ours. */
async function removeLeftovers(): Promise<void> {
  const { stdout } = await run('ip', ['netns', 'list']);
  for (const namespace of stdout.split('\n').map((line) => line.split(' ')[0] ?? '')) {
    const owner = Number(new RegExp(`^${PREFIX}(\\d+)-`).exec(namespace)?.[1]);
    if (!owner || isAlive(owner)) continue;
    const pids = (await run('ip', ['netns', 'pids', namespace])).stdout.split('\n').filter(Boolean);
    for (const pid of pids) process.kill(Number(pid), 'SIGKILL');
    await ip(['netns', 'del', namespace]);
    for (const leg of ['f', 'b']) await ip(['link', 'del', `dc${leg}${owner}`]).catch(() => {});
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    // no such process
    return false;
  }
}

async function ip(args: string[]): Promise<void> {
  await run('ip', args);
}
