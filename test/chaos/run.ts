/**
 * The fault suite: starts everything, executes the faults, waits until all jobs are done, and checks the rules.
 *
 * Exit code 0: every rule held or, without a protection, the run found the expected violations. 1: otherwise, or the
 * run itself failed. 2: this machine cannot run it.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { migrate } from '../../packages/server/src/db/migrate.js';
import { nowMs } from './clock.js';
import { installControls, needsNoFault } from './controls.js';
import { installAudit } from './evidence/audit.js';
import type { Evidence } from './evidence/evidence.js';
import { readEvidence } from './evidence/read-evidence.js';
import type { Fault, FaultResult } from './faults/fault.js';
import { breakForever, carryOut, isAnswering } from './faults/nemesis.js';
import { planFaults } from './faults/plan.js';
import { createPlanter } from './faults/plant.js';
import { startAssault } from './hostile/assault.js';
import { HOSTILE } from './hostile/hostile.js';
import type { LoadCount, LoadSettings } from './load/load.js';
import { type ChaosOptions, commandOf, readOptions, USAGE, UsageError } from './options.js';
import { createRandom, type Random } from './random.js';
import { checkRecovery } from './recovery.js';
import { report } from './report.js';
import { checkRules } from './rules/index.js';
import type { Finding } from './rules/rule.js';
import { type ChaosDatabase, createDatabase } from './system/database.js';
import { createFakeClock, type FakeClock } from './system/fake-clock.js';
import { createNetwork, type Network } from './system/network.js';
import { createUnit, type Instance, type Trouble, type Unit, type UnitSettings, urlOf } from './system/units.js';
import { startWatch, type Watch } from './watch.js';

const BEAT_MS = 500;
const LEASE_MS = 3000;
/** Lease, the server's grace and drift, its next round, and our own reading. */
const VERDICT_MS = LEASE_MS + 4000;
const DRAIN_MS = 120_000;
/** In liveness mode: the share of the time before only the core is left. */
const BREAK_AT = 0.5;
/** One of this many workers takes no job whose handler ignores its signal. */
const HEEDFUL_EVERY = 3;

type Run = {
  options: ChaosOptions;
  folder: string;
  /** Undone in reverse order when the run is over. */
  closing: (() => Promise<void> | void)[];
  signal: AbortSignal;
};

const startedAt = nowMs();
function say(text: string): void {
  console.log(`${((nowMs() - startedAt) / 1000).toFixed(1).padStart(7)} s  ${text}`);
}

export async function main(args: string[]): Promise<number> {
  let options: ChaosOptions;
  try {
    options = readOptions(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    return 2;
  }
  const folder = mkdtempSync(join(tmpdir(), 'drover-chaos-'));
  // PostgreSQL runs as another user and needs access
  execFileSync('chmod', ['755', folder]);
  for (const name of ['logs', 'witness', 'data', 'clocks', 'journals']) mkdirSync(join(folder, name));
  const stopped = new AbortController();
  const onSignal = () => stopped.abort();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal);
  const run: Run = { options, folder, closing: [], signal: stopped.signal };
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  say(`${commandOf(options)}   (commit ${commit}, ${cpus().length} cores)`);
  say(`logs of all processes, witness, ledger and journals: ${folder}`);
  try {
    const findings = await perform(run);
    writeFileSync(join(folder, 'findings.json'), JSON.stringify(findings, null, 1));
    return report(findings, options, commit, folder);
  } catch (error) {
    console.error(stopped.signal.aborted ? 'interrupted' : error);
    console.error(`seed ${options.seed}, commit ${commit}\n${commandOf(options)}`);
    return 1;
  } finally {
    for (const close of run.closing.reverse()) {
      await Promise.resolve(close()).catch((error: Error) => console.error(`could not clean up: ${error.message}`));
    }
    if (!options.keep) rmSync(join(folder, 'database'), { recursive: true, force: true });
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, onSignal);
  }
}

async function perform(run: Run): Promise<Finding[]> {
  const { options, folder, closing, signal } = run;
  const random = createRandom(options.seed);
  const network = await createNetwork();
  closing.push(() => network.remove());
  const { database, databaseClock, pool } = await startDatabase(run, network);
  const begun = new EventEmitter();
  const { units, instances } = await createUnits(run, network, database, begun);
  closing.push(async () => void (await Promise.all(units.map((unit) => unit.end('SIGKILL')))));
  await startUnits(units, folder);
  const urls = units.filter(({ role }) => role === 'server').map(({ url }) => url);
  const watch = startWatch(pool);
  closing.push(() => watch.stop());
  const load = await startLoad(run, { urls, databaseUrl: database.url });
  closing.push(() => load.kill());
  const planter = createPlanter(urls, join(folder, 'ledger.log'), begun, LEASE_MS);
  closing.push(() => planter.close());
  const counting = setInterval(() => void sayProgress(pool, load), 15_000);
  closing.push(() => clearInterval(counting));

  const databaseTroubles: Trouble[] = [];
  const plan = planOf(run, units, random.fork('nemesis'));
  const began = nowMs();
  const faults = await carryOut(plan, { units, database, databaseClock, databaseTroubles, planter }, say, signal);
  const assault = options.nemesis === 'hostile' ? await startAssault(units, options.seed) : undefined;
  closing.push(() => assault?.kill());
  const core = await endFaults(run, units, began, random.fork('core'));
  const assaulted = await assault?.end();
  clearInterval(counting);
  const count = await load.stop();
  say(`the load has ended: ${describeLoad(count)}`);
  const drained = await drain(pool, signal);
  if (signal.aborted) throw new Error('interrupted');
  const recovery = await checkRecovery(core, join(folder, 'ledger.log'));
  say(`${await countCopies(pool)} batches were added by COPY since the database last crashed`);
  await stopUnits(units, core);
  await watch.finish();
  return judge(run, pool, { units, instances, databaseTroubles, faults, recovery, drained, watch, assault: assaulted });
}

async function startDatabase({ options, folder, closing }: Run, network: Network) {
  const databaseClock = options.faults.includes('clock')
    ? createFakeClock(join(folder, 'clocks', 'database'))
    : undefined;
  const database = await createDatabase({
    folder: join(folder, 'database'),
    address: network.databaseAddress,
    subnet: network.backSubnet,
    clock: databaseClock,
  });
  closing.push(async () => {
    await database.thaw();
    await database.stop('fast');
  });
  await database.start();
  await migrate(database.url);
  const pool = new pg.Pool({ connectionString: database.url, max: 4, connectionTimeoutMillis: 5000 });
  // its connections end with every restart
  pool.on('error', () => {});
  closing.push(() => pool.end());
  await installAudit(pool);
  await installControls(pool, options.without);
  return { database, databaseClock, pool };
}

async function createUnits({ options, folder }: Run, network: Network, database: ChaosDatabase, begun: EventEmitter) {
  const instances: Instance[] = [];
  const clockOf = (name: string): FakeClock | undefined =>
    options.faults.includes('clock') ? createFakeClock(join(folder, 'clocks', name)) : undefined;
  const serverMachines = [];
  for (let index = 1; index <= options.servers; index++) {
    serverMachines.push(await network.addMachine(`s${index}`, ['front', 'back']));
  }
  const workerNames = Array.from({ length: options.workers }, (_, index) => `worker${index + 1}`);
  // in liveness mode a single worker is left, which must take all types
  const isHeedful = (_: string, index: number) => options.mode === 'safety' && (index + 1) % HEEDFUL_EVERY === 0;
  const settings: UnitSettings = {
    ...{ folder, begun, instances, databaseUrl: database.url, serverUrls: serverMachines.map(urlOf) },
    heedful: workerNames.filter(isHeedful),
    without: options.without,
    losesJournals: options.without.includes('journal'),
    ...{ beat: `${BEAT_MS}ms`, lease: `${LEASE_MS}ms` },
  };
  const units: Unit[] = serverMachines.map((machine, index) => {
    const name = `server${index + 1}`;
    return createUnit(name, 'server', machine, clockOf(name), settings);
  });
  for (const [index, name] of workerNames.entries()) {
    const machine = await network.addMachine(`w${index + 1}`, ['front']);
    units.push(createUnit(name, 'worker', machine, clockOf(name), settings));
  }
  return { units, instances };
}

async function startUnits(units: readonly Unit[], folder: string): Promise<void> {
  const servers = units.filter(({ role }) => role === 'server');
  for (const server of servers) server.start();
  for (const server of servers) {
    if (!(await isAnswering(server, 60_000))) throw new Error(`${server.name} does not answer; see ${folder}/logs`);
  }
  for (const unit of units) unit.start();
  say(`${servers.length} servers and ${units.length - servers.length} workers are started`);
}

function planOf({ options }: Run, units: readonly Unit[], random: Random): Fault[] {
  const namesOf = (role: Unit['role']) => units.filter((unit) => unit.role === role).map(({ name }) => name);
  const plan = planFaults({
    ...{ random, leaseMs: LEASE_MS, groups: options.faults, servers: namesOf('server'), workers: namesOf('worker') },
    durationMs: options.minutes * 60_000 * (options.mode === 'safety' ? 1 : BREAK_AT),
  });
  const isShown = (control: ChaosOptions['without'][number]) => plan.some(({ shows }) => shows?.includes(control));
  const unneeded = options.without.filter((control) => !needsNoFault(control) && !isShown(control));
  if (unneeded.length > 0) throw new Error(`no episode of this plan needs ${unneeded}: more minutes, or all faults`);
  return plan;
}

/**
 * Waits for the end of the time. In liveness mode it first breaks everything except a core. Returns what should be
 * alive.
 */
async function endFaults(
  { options, signal }: Run,
  units: readonly Unit[],
  began: number,
  random: Random,
): Promise<Unit[]> {
  const faultMs = options.minutes * 60_000;
  if (options.mode === 'safety') {
    await until(began + faultMs, signal);
    return [...units];
  }
  await until(began + faultMs * BREAK_AT, signal);
  const pickOf = (role: Unit['role']) => random.pick(units.filter((unit) => unit.role === role));
  const core = [pickOf('server'), pickOf('worker')];
  say(`the core is ${core.map(({ name }) => name).join(' and ')}; broken forever:`);
  for (const line of await breakForever(units, core, random)) say(`  ${line}`);
  await until(began + faultMs, signal);
  return core;
}

/** One of the two ways to add jobs. A crash of the database loses its statistics. */
async function countCopies(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query(
    `select coalesce(sum(calls), 0)::int as calls from pg_stat_user_functions where funcname = 'finish_copy'`,
  );
  return rows[0].calls;
}

async function stopUnits(units: readonly Unit[], core: readonly Unit[]): Promise<void> {
  // units outside the core are broken forever and cannot stop cleanly
  const endUnit = (unit: Unit) => unit.end(core.includes(unit) ? 'SIGTERM' : 'SIGKILL');
  await Promise.all(units.filter(({ role }) => role === 'worker').map(endUnit));
  await Promise.all(units.filter(({ role }) => role === 'server').map(endUnit));
}

type Seen = {
  units: readonly Unit[];
  instances: readonly Instance[];
  databaseTroubles: readonly Trouble[];
  faults: FaultResult[];
  recovery: Evidence['recovery'];
  drained: boolean;
  watch: Watch;
  assault: Evidence['assault'];
};

async function judge({ folder }: Run, pool: pg.Pool, { watch, ...seen }: Seen): Promise<Finding[]> {
  say('checking');
  sayEndings(seen.instances);
  const { repairs } = watch;
  // its sessions end when it goes, as they should
  const verdicts = watch.verdicts.filter(({ unit }) => unit !== HOSTILE);
  const troubles = seen.units.map((unit) => ({ name: unit.name, troubles: unit.troubles }));
  const { instances, faults, databaseTroubles } = seen;
  const notes = { instances, troubles, databaseTroubles, verdicts, repairs, faults };
  writeFileSync(join(folder, 'processes.json'), JSON.stringify(notes, null, 1));
  const observed = { ...seen, verdicts, repairs, leaseMs: LEASE_MS, verdictMs: VERDICT_MS };
  return checkRules(await readEvidence(folder, pool, observed));
}

async function startLoad({ options, folder }: Run, where: Pick<LoadSettings, 'urls' | 'databaseUrl'>) {
  const settings: LoadSettings = {
    ...where,
    rate: options.rate,
    seed: options.seed,
    ledger: join(folder, 'ledger.log'),
  };
  const child: ChildProcess = fork(fileURLToPath(new URL('./load/load.ts', import.meta.url)), [], {
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, CHAOS_LOAD: JSON.stringify(settings) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const answer = async (): Promise<LoadCount> => {
    const [count] = await once(child, 'message', { signal: AbortSignal.timeout(120_000) });
    return count as LoadCount;
  };
  const ask = (what: string): Promise<LoadCount> => {
    if (!child.connected) throw new Error('the load has ended by itself; its messages are above');
    const answered = answer();
    child.send(what);
    return answered;
  };
  await answer();
  return { stop: () => ask('stop'), count: () => ask('count'), kill: () => void child.kill('SIGKILL') };
}

function describeLoad({ acknowledged, refused, unknown, unsent }: LoadCount): string {
  return `${acknowledged} acknowledged, ${refused} refused, ${unknown} unknown, ${unsent} not sent`;
}

async function sayProgress(pool: pg.Pool, load: { count(): Promise<LoadCount> }): Promise<void> {
  try {
    const count = await load.count();
    const { rows } = await pool.query('select state::text, count(*)::int from drover.job group by state order by 1');
    const waiting = rows.map((row) => `${row.count} ${row.state}`).join(', ') || 'nothing';
    say(`— ${describeLoad(count)}; in the database: ${waiting}`);
  } catch {
    // the database is unavailable, or the load is just ending
  }
}

async function drain(pool: pg.Pool, signal: AbortSignal): Promise<boolean> {
  const began = nowMs();
  while (nowMs() < began + DRAIN_MS && !signal.aborted) {
    const { rows } = await pool.query<{ left: number }>(
      "select count(*)::int as left from drover.job where state <> 'unknown'",
    );
    if (rows[0]?.left === 0) {
      say(`everything has drained after ${((nowMs() - began) / 1000).toFixed(1)} s`);
      return true;
    }
    await delay(500);
  }
  return false;
}

async function until(atMs: number, signal: AbortSignal): Promise<void> {
  await delay(Math.max(0, atMs - nowMs()), undefined, { signal });
}

function sayEndings(instances: readonly Instance[]): void {
  const endings = new Map<string, number>();
  for (const { role, byItself, ending } of instances) {
    const what = `${role}: ${ending ?? 'alive'}${byItself ? ' by itself' : ''}`;
    endings.set(what, (endings.get(what) ?? 0) + 1);
  }
  say(`ends of processes: ${[...endings].map(([what, count]) => `${count} × ${what}`).join(', ')}`);
}
