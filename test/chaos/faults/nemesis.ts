/**
 * Executes the plan of faults and heals them. Each fault is verified: the process is frozen or gone, packets were
 * dropped, the clock shows another time. A fault that was not possible fails the run.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { nowMs } from '../clock.js';
import type { Random } from '../random.js';
import type { ChaosDatabase } from '../system/database.js';
import { CLOCK_LOOK_MS, type FakeClock } from '../system/fake-clock.js';
import type { Direction, Leg } from '../system/network.js';
import { BROKEN_FOREVER, type Trouble, type Unit } from '../system/units.js';
import { ALL_SERVERS, DATABASE, describeFault, type Fault, type FaultResult, HOLDERS } from './fault.js';
import type { Planter } from './plant.js';

/** Time in which a resumed server checks for lost workers: it does so every beat. */
const RESUME_GAP_MS = 500;
/** Limit for a clock to be read after it has been set; a worker may be restarting. */
const CLOCK_SEEN_MS = 10_000;
const CLOCK_TOLERANCE_MS = 3000;
const SLOW_KILOBITS = 256;
/** For a cut that must be survived: how much of it passes before the worker is killed. */
const KILLED_AFTER = 0.4;

type Stage = {
  units: readonly Unit[];
  database: ChaosDatabase;
  databaseClock: FakeClock | undefined;
  /** Receives the faults of the database. */
  databaseTroubles: Trouble[];
  planter: Pick<Planter, 'plant'>;
};

/** The fault was not possible, or had no effect, because its target was not running. */
class LeftOut extends Error {}

/** Executes the plan. Resolves when everything has healed. */
export async function carryOut(
  plan: readonly Fault[],
  stage: Stage,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<FaultResult[]> {
  const started = nowMs();
  const underWay: Promise<FaultResult>[] = [];
  for (const fault of plan) {
    await delay(Math.max(0, started + fault.atMs - nowMs()), undefined, { signal }).catch(() => {});
    if (signal.aborted) break;
    say(describeFault(fault));
    underWay.push(
      attempt(fault, stage).then((result) => {
        if (result.outcome !== 'done') say(`${result.outcome}: ${result.fault}: ${result.why}`);
        return result;
      }),
    );
  }
  return Promise.all(underWay);
}

async function attempt(fault: Fault, stage: Stage): Promise<FaultResult> {
  const what = describeFault(fault);
  try {
    if (wouldHurtAll(fault, stage)) throw new LeftOut('no other server is well');
    await commit(fault, stage);
    return { fault: what, outcome: 'done', why: '' };
  } catch (error) {
    return { fault: what, outcome: error instanceof LeftOut ? 'left out' : 'failed', why: (error as Error).message };
  }
}

/** On a busy machine a server takes longer to come back than the plan assumes. */
function wouldHurtAll({ on, target, shows }: Fault, { units }: Stage): boolean {
  if (shows !== undefined || (on !== 'server' && on !== ALL_SERVERS)) return false;
  const isWell = ({ role, name, troubles }: Unit) =>
    role === 'server' && name !== target && troubles.every(({ to }) => to !== Number.POSITIVE_INFINITY);
  return !units.some(isWell);
}

async function commit(fault: Fault, stage: Stage): Promise<void> {
  if (fault.on === DATABASE) return hurtDatabase(fault, stage);
  if (fault.on === ALL_SERVERS) return fault.kind === 'pause' ? pauseServers(fault, stage) : rollServers(stage);
  if (fault.on === HOLDERS) return hurtHolders(fault, stage);
  const unit = stage.units.find(({ name }) => name === fault.target);
  if (!unit) throw new Error(`there is no ${fault.target}`);
  const healed = unit.suffer(fault.kind);
  try {
    await hurtUnit(fault, unit);
    if (unit.role === 'server' && !(await isAnswering(unit))) throw new Error(`${unit.name} does not answer after it`);
  } finally {
    healed();
  }
}

async function hurtHolders(fault: Fault, stage: Stage): Promise<void> {
  // one worker may have started all of them
  const names = new Set(await stage.planter.plant(fault.plants ?? []));
  await Promise.all([...names].map((target) => commit({ ...fault, on: 'worker', target }, stage)));
}

async function hurtUnit(fault: Fault, unit: Unit): Promise<void> {
  const { kind, direction, forMs } = fault;
  const { machine } = unit;
  switch (kind) {
    case 'kill':
      await kill(unit);
      // some are restarted at once, as under a supervisor; the others only after their lease
      await delay(forMs);
      unit.start();
      return;
    case 'leave':
      refuseUnlessAlive(unit);
      await unit.end('SIGTERM');
      await delay(500);
      unit.start();
      return;
    case 'pause':
      refuseUnlessAlive(unit);
      await unit.pause();
      await delay(forMs);
      await unit.resume();
      return;
    case 'cut off':
    case 'cut from the database':
      return cut(unit, kind === 'cut off' ? 'front' : 'back', direction, forMs);
    case 'cut off and kill': {
      const isCut = cut(unit, 'front', direction, forMs);
      await delay(KILLED_AFTER * forMs);
      await kill(unit);
      await isCut;
      unit.start();
      return;
    }
    case 'slow':
      await machine.slow('front', SLOW_KILOBITS);
      await delay(forMs);
      await machine.hurry('front');
      return;
    case 'clock':
      return setClockOfUnit(fault, unit);
    default:
      throw new Error(`no such fault: ${kind}`);
  }
}

function refuseUnlessAlive(unit: Unit): void {
  if (!unit.isAlive) throw new LeftOut(`${unit.name} is just being started again`);
}

async function kill(unit: Unit): Promise<void> {
  refuseUnlessAlive(unit);
  const { instance } = unit;
  await unit.end('SIGKILL');
  if (instance?.ending !== 'SIGKILL') throw new LeftOut(`${unit.name} had ended with ${instance?.ending} before`);
}

async function cut({ name, machine }: Unit, leg: Leg, direction: Direction, forMs: number): Promise<void> {
  await machine.cut(leg, direction);
  await delay(forMs);
  const dropped = await machine.heal(leg, direction);
  if (dropped === 0) throw new LeftOut(`no packet of ${name} was dropped`);
}

async function setClockOfUnit({ jump, forMs }: Fault, unit: Unit): Promise<void> {
  const { clock } = unit;
  if (!clock) throw new Error('libfaketime is not installed');
  const until = nowMs() + forMs;
  clock.jump(jump);
  try {
    await seeClock(unit.name, jump, () => unit.readClock());
    await delay(Math.max(0, until - nowMs()));
  } finally {
    clock.jump(0);
    await delay(CLOCK_LOOK_MS);
  }
}

/** Resolves when the clock shows the time that was set. */
async function seeClock(name: string, jump: number, read: () => Promise<number | undefined>): Promise<void> {
  const deadline = nowMs() + CLOCK_SEEN_MS;
  let seen: number | undefined;
  while (nowMs() < deadline) {
    const clock = await read();
    if (clock !== undefined) seen = clock - Date.now();
    if (seen !== undefined && Math.abs(seen - jump * 1000) < CLOCK_TOLERANCE_MS) return;
    await delay(200);
  }
  if (seen === undefined) throw new LeftOut(`${name} did not say what time it is`);
  throw new Error(`the clock of ${name} was set by ${jump} s and is ${(seen / 1000).toFixed(1)} s off`);
}

async function hurtDatabase(fault: Fault, stage: Stage): Promise<void> {
  const trouble: Trouble = { from: nowMs(), to: Number.POSITIVE_INFINITY, what: `${fault.kind} database` };
  stage.databaseTroubles.push(trouble);
  try {
    await commitToDatabase(fault, stage);
  } finally {
    trouble.to = nowMs();
  }
}

async function commitToDatabase({ kind, how, forMs, jump }: Fault, { database, databaseClock }: Stage): Promise<void> {
  switch (kind) {
    case 'restart':
      await database.stop(how);
      await database.start();
      return;
    case 'away':
      await database.stop(how);
      await delay(forMs);
      await database.start();
      return;
    case 'freeze':
      await database.freeze();
      await delay(forMs);
      await database.thaw();
      return;
    case 'clock':
      if (!databaseClock) throw new Error('libfaketime is not installed');
      await setClockOfDatabase(database, databaseClock, jump);
      await seeClock('the database', jump, () => database.readClock());
      await delay(forMs);
      await setClockOfDatabase(database, databaseClock, 0);
      return;
    default:
      throw new Error(`no such fault of the database: ${kind}`);
  }
}

/**
 * The processes of PostgreSQL see a new time within two seconds, each at a different time. They are frozen meanwhile:
 * a real machine never has two times at once, and a lease renewed in one and checked in the other would expire at
 * once.
 */
async function setClockOfDatabase(database: ChaosDatabase, clock: FakeClock, seconds: number): Promise<void> {
  await database.freeze();
  clock.jump(seconds);
  await delay(CLOCK_LOOK_MS + 100);
  await database.thaw();
}

/**
 * They resume one by one, so that the first checks for lost workers before the others can renew their workers'
 * leases.
 */
async function pauseServers({ forMs }: Fault, { units }: Stage): Promise<void> {
  const servers = units.filter(({ role }) => role === 'server');
  const healed = servers.map((server) => server.suffer('pause of all servers'));
  await Promise.all(servers.map((server) => server.pause()));
  await delay(forMs);
  for (const server of servers) {
    await server.resume();
    await delay(RESUME_GAP_MS);
  }
  for (const heal of healed) heal();
}

/** One after the other, each only when the previous one answers again. */
async function rollServers({ units }: Stage): Promise<void> {
  for (const server of units.filter(({ role }) => role === 'server')) {
    const healed = server.suffer('rolling restart');
    await server.end('SIGTERM');
    server.start();
    const answers = await isAnswering(server);
    healed();
    if (!answers) throw new Error(`${server.name} does not answer after its restart`);
  }
}

export async function isAnswering(server: Unit, withinMs = 20_000): Promise<boolean> {
  const deadline = nowMs() + withinMs;
  while (nowMs() < deadline) {
    const answer = await fetch(`${server.url}/api/ping`, { signal: AbortSignal.timeout(1000) }).catch(() => undefined);
    await answer?.text();
    if (answer?.ok) return true;
    await delay(100);
  }
  return false;
}

/** Breaks everything except the core, each unit in its own way. Returns what was done. */
export async function breakForever(units: readonly Unit[], core: readonly Unit[], random: Random): Promise<string[]> {
  const done: string[] = [];
  for (const unit of units) {
    if (core.includes(unit)) continue;
    const ways = unit.role === 'server' ? ['kill', 'pause', 'cut', 'cut from the database'] : ['kill', 'pause', 'cut'];
    const way = random.pick(ways);
    const direction = random.pick<Direction>(['both', 'in', 'out']);
    unit.suffer(`${BROKEN_FOREVER}: ${way}`);
    if (way === 'kill') await unit.end('SIGKILL');
    else if (way === 'pause') await unit.pause();
    else await unit.machine.cut(way === 'cut' ? 'front' : 'back', direction);
    done.push(`${unit.name}: ${way}${way.startsWith('cut') ? ` (${direction})` : ''}`);
  }
  return done;
}
