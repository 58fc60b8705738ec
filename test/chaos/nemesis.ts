/** Who breaks things, as the plan says, and mends them. */
import { setTimeout as delay } from 'node:timers/promises';
import { nowMs } from './clock.js';
import type { ChaosDatabase } from './database.js';
import { CLOCK_LOOK_MS, type FakeClock } from './fake-clock.js';
import { ALL_SERVERS, DATABASE, describeFault, type Fault, HOLDERS } from './fault.js';
import type { Direction } from './network.js';
import type { Planter } from './plant.js';
import type { Random } from './random.js';
import type { Trouble, Unit } from './units.js';

/** In which a server that goes on has looked for lost workers: it does so every beat. */
const RESUME_GAP_MS = 500;

type Stage = {
  units: readonly Unit[];
  database: ChaosDatabase;
  databaseClock: FakeClock | undefined;
  /** Filled with what the database suffers. */
  databaseTroubles: Trouble[];
  planter: Pick<Planter, 'plant'>;
};

/** Carries out the plan; resolves when everything has healed. */
export async function carryOut(plan: readonly Fault[], stage: Stage, say: (text: string) => void, signal: AbortSignal) {
  const started = nowMs();
  const underWay: Promise<void>[] = [];
  for (const fault of plan) {
    await delay(Math.max(0, started + fault.atMs - nowMs()), undefined, { signal }).catch(() => {});
    if (signal.aborted) break;
    if (wouldHurtAll(fault, stage)) {
      say(`left out, no other server is well: ${describeFault(fault)}`);
      continue;
    }
    say(describeFault(fault));
    underWay.push(
      commit(fault, stage).catch((error: Error) => say(`${describeFault(fault)} was not possible: ${error.message}`)),
    );
  }
  await Promise.all(underWay);
}

/** A server takes longer to come back on a busy machine than the plan knows. */
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
    if (unit.role === 'server') await isAnswering(unit);
  } finally {
    healed();
  }
}

async function hurtHolders(fault: Fault, stage: Stage): Promise<void> {
  // one worker may have begun all of them
  const names = new Set(await stage.planter.plant());
  await Promise.all([...names].map((target) => commit({ ...fault, on: 'worker', target }, stage)));
}

async function hurtUnit({ kind, direction, forMs, jump }: Fault, unit: Unit): Promise<void> {
  const { machine, clock } = unit;
  const leg = kind === 'cut from the database' ? 'back' : 'front';
  switch (kind) {
    case 'kill':
      await unit.end('SIGKILL');
      // half of them come back at once, as under a supervisor; the others only after their lease
      await delay(forMs);
      unit.start();
      return;
    case 'leave':
      await unit.end('SIGTERM');
      await delay(500);
      unit.start();
      return;
    case 'pause':
      unit.pause();
      await delay(forMs);
      unit.resume();
      return;
    case 'cut off':
    case 'cut from the database':
      await machine.cut(leg, direction);
      await delay(forMs);
      await machine.mend(leg, direction);
      return;
    case 'slow':
      await machine.slow('front', 256);
      await delay(forMs);
      await machine.hurry('front');
      return;
    case 'clock':
      clock?.jump(jump);
      await delay(forMs);
      clock?.jump(0);
      await delay(CLOCK_LOOK_MS);
      return;
    default:
      throw new Error(`nobody knows how to ${kind}`);
  }
}

async function hurtDatabase(fault: Fault, stage: Stage): Promise<void> {
  const trouble: Trouble = { from: nowMs(), to: Number.POSITIVE_INFINITY, what: `${fault.kind} database` };
  stage.databaseTroubles.push(trouble);
  await commitToDatabase(fault, stage);
  trouble.to = nowMs();
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
      await setClock(database, databaseClock, jump);
      await delay(forMs);
      await setClock(database, databaseClock, 0);
      return;
    default:
      throw new Error(`nobody knows how to ${kind} the database`);
  }
}

/**
 * The processes of PostgreSQL see a new time within two seconds, each at its own moment. They stand still meanwhile:
 * no machine has two times at once, and a lease renewed in one and judged in the other would be over at once.
 */
async function setClock(database: ChaosDatabase, clock: FakeClock | undefined, seconds: number): Promise<void> {
  await database.freeze();
  clock?.jump(seconds);
  await delay(CLOCK_LOOK_MS + 100);
  await database.thaw();
}

/**
 * Not noted as a trouble of each: when all of them are away, that is no reason to give up a worker (S10). They go on one by
 * one, so that the first looks for lost workers before the others can renew the leases of theirs.
 */
async function pauseServers({ forMs }: Fault, { units }: Stage): Promise<void> {
  const servers = units.filter(({ role }) => role === 'server');
  for (const server of servers) server.pause();
  await delay(forMs);
  for (const server of servers) {
    server.resume();
    await delay(RESUME_GAP_MS);
  }
}

/** One after the other, each only when the one before it answers again. */
async function rollServers({ units }: Stage): Promise<void> {
  for (const server of units.filter(({ role }) => role === 'server')) {
    const healed = server.suffer('rolling restart');
    await server.end('SIGTERM');
    server.start();
    await isAnswering(server);
    healed();
  }
}

export async function isAnswering(server: Unit, withinMs = 20_000): Promise<boolean> {
  const deadline = nowMs() + withinMs;
  while (nowMs() < deadline) {
    const answer = await fetch(`${server.url}/api/ping`, { signal: AbortSignal.timeout(1000) }).catch(() => undefined);
    if (answer?.ok) return true;
    await delay(100);
  }
  return false;
}

/** For ever: everything but the core, each in its own way. Gives what was done. */
export async function breakForEver(units: readonly Unit[], core: readonly Unit[], random: Random): Promise<string[]> {
  const done: string[] = [];
  for (const unit of units) {
    if (core.includes(unit)) continue;
    const ways = unit.role === 'server' ? ['kill', 'pause', 'cut', 'cut from the database'] : ['kill', 'pause', 'cut'];
    const way = random.pick(ways);
    const direction = random.pick<Direction>(['both', 'in', 'out']);
    unit.suffer(`broken for ever: ${way}`);
    if (way === 'kill') await unit.end('SIGKILL');
    else if (way === 'pause') unit.pause();
    else await unit.machine.cut(way === 'cut' ? 'front' : 'back', direction);
    done.push(`${unit.name}: ${way}${way.startsWith('cut') ? ` (${direction})` : ''}`);
  }
  return done;
}
