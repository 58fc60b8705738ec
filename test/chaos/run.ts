/**
 * The fault suite: starts everything, lets the nemesis at it, waits until all is done, and checks.
 *
 * Exit code 0: every invariant held, or, without a protection, the run found what it should. 1: not so, or the run itself
 * went wrong. 2: this machine cannot do it.
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
import { installAudit } from './audit.js';
import { check, type Finding, type GivenUp } from './check.js';
import { nowMs } from './clock.js';
import { type ChaosDatabase, createDatabase } from './database.js';
import { createFakeClock } from './fake-clock.js';
import type { LoadCount } from './load.js';
import { breakForEver, carryOut, isAnswering } from './nemesis.js';
import { createNetwork, type Network } from './network.js';
import { type ChaosOptions, commandOf, FOUND_WITHOUT, readOptions, USAGE, UsageError } from './options.js';
import { planFaults } from './plan.js';
import { createPlanter } from './plant.js';
import { createRandom } from './random.js';
import { createUnit, type Instance, type Trouble, type Unit, urlOf } from './units.js';

const BEAT_MS = 500;
const LEASE_MS = 3000;
/** Grace of the server, clock drift, its next look, and the looks of ours. */
const VERDICT_MS = LEASE_MS + 4000;
const DRAIN_MS = 120_000;
/** Of the time, how much passes before only the core is left, and before the load ends then. */
const BREAK_AT = 0.5;
const WATCH_EVERY_MS = 250;
/** Every so many workers, one is heedful: it has nothing that lets it end itself when no lease can be confirmed. */
const HEEDFUL_EVERY = 3;

type Run = { options: ChaosOptions; folder: string; closing: (() => Promise<void> | void)[]; signal: AbortSignal };

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
  // PostgreSQL runs as another user and must get through
  execFileSync('chmod', ['755', folder]);
  for (const name of ['logs', 'witness', 'data', 'clocks']) mkdirSync(join(folder, name));
  const stopped = new AbortController();
  const onSignal = () => stopped.abort();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal);
  const run: Run = { options, folder, closing: [], signal: stopped.signal };
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  say(`${commandOf(options)}   (commit ${commit}, ${cpus().length} cores)`);
  say(`logs of all processes, witness and ledger: ${folder}`);
  try {
    const findings = await perform(run);
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
  const databaseClock = options.faults.includes('clock')
    ? createFakeClock(join(folder, 'clocks', 'database'))
    : undefined;
  if (options.faults.includes('clock') && !databaseClock) say('libfaketime is not installed: no clock jumps');
  const database = await createDatabase({
    ...{
      folder: join(folder, 'database'),
      address: network.databaseAddress,
      subnet: network.backSubnet,
      clock: databaseClock,
    },
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

  const begun = new EventEmitter();
  const { units, instances } = await createUnits(run, network, database, begun);
  closing.push(async () => {
    await Promise.all(units.map((unit) => unit.end('SIGKILL')));
  });
  const servers = units.filter(({ role }) => role === 'server');
  for (const server of servers) server.start();
  for (const server of servers) {
    if (!(await isAnswering(server, 60_000))) throw new Error(`${server.name} does not answer; see ${folder}/logs`);
  }
  for (const unit of units) unit.start();
  say(`${servers.length} servers and ${units.length - servers.length} workers are started`);

  const watch = watchVerdicts(pool);
  closing.push(() => watch.stop());
  const load = startLoad(
    run,
    servers.map(({ url }) => url),
  );
  closing.push(() => load.kill());
  const planter = createPlanter(
    servers.map(({ url }) => url),
    join(folder, 'ledger.log'),
    begun,
    LEASE_MS,
  );
  closing.push(() => planter.close());

  const faultMs = options.minutes * 60_000;
  const databaseTroubles: Trouble[] = [];
  const stage = { units, database, databaseClock, databaseTroubles, planter };
  const plan = planFaults({
    ...{ random: random.fork('nemesis'), leaseMs: LEASE_MS, groups: options.faults },
    durationMs: options.mode === 'safety' ? faultMs : faultMs * BREAK_AT,
    servers: servers.map(({ name }) => name),
    workers: units.filter(({ role }) => role === 'worker').map(({ name }) => name),
  });
  const unneeded = options.without.filter((mechanism) => !plan.some(({ shows }) => shows?.includes(mechanism)));
  if (unneeded.length > 0) throw new Error(`no episode of this plan needs ${unneeded}: more minutes, or all faults`);
  const began = nowMs();
  const counting = setInterval(() => void sayProgress(pool, load), 15_000);
  closing.push(() => clearInterval(counting));
  await carryOut(plan, stage, say, signal);
  await until(began + (options.mode === 'safety' ? faultMs : faultMs * BREAK_AT), signal);

  if (options.mode === 'liveness') {
    const choice = random.fork('core');
    const core = [choice.pick(servers), choice.pick(units.filter(({ role }) => role === 'worker'))];
    say(`the core is ${core.map(({ name }) => name).join(' and ')}; for ever broken:`);
    for (const line of await breakForEver(units, core, choice)) say(`  ${line}`);
    await until(began + faultMs, signal);
  }
  clearInterval(counting);
  const count = await load.stop();
  say(
    `the load has ended: ${count.acknowledged} acknowledged, ${count.refused} refused, ${count.unknown} unknown, ${count.left} not sent`,
  );
  const drained = await drain(pool, signal);
  if (signal.aborted) throw new Error('interrupted');
  say(`${await countCopies(pool)} batches were added by COPY since the database last crashed`);
  // whoever stands still for ever ends as it is
  const workers = units.filter(({ role }) => role === 'worker');
  await Promise.all(workers.map((unit) => unit.end(options.mode === 'safety' ? 'SIGTERM' : 'SIGKILL')));
  await Promise.all(servers.map((unit) => unit.end('SIGKILL')));
  await watch.look();
  say('checking');
  sayEndings(instances);
  writeFileSync(
    join(folder, 'processes.json'),
    JSON.stringify(
      { instances, troubles: units.map(({ name, troubles }) => ({ name, troubles })), givenUp: watch.givenUp },
      null,
      1,
    ),
  );
  return check({
    ...{ folder, pool, units, instances, givenUp: watch.givenUp, drained, databaseTroubles },
    ...{ leaseMs: LEASE_MS, verdictMs: VERDICT_MS },
  });
}

/** One of the two ways in which jobs are added. A crash of the database takes its statistics with it. */
async function countCopies(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query(
    `select coalesce(sum(calls), 0)::int as calls from pg_stat_user_functions where funcname = 'check_copied_jobs'`,
  );
  return rows[0].calls;
}

async function createUnits({ options, folder }: Run, network: Network, database: ChaosDatabase, begun: EventEmitter) {
  const instances: Instance[] = [];
  const clockOf = (name: string) =>
    options.faults.includes('clock') ? createFakeClock(join(folder, 'clocks', name)) : undefined;
  const serverMachines = [];
  for (let index = 1; index <= options.servers; index++)
    serverMachines.push(await network.addMachine(`s${index}`, ['front', 'back']));
  const workerNames = Array.from({ length: options.workers }, (_, index) => `worker${index + 1}`);
  // in the other mode a single worker is left, which must take everything
  const isHeedful = (_: string, index: number) => options.mode === 'safety' && (index + 1) % HEEDFUL_EVERY === 0;
  const settings = {
    ...{
      folder,
      begun,
      heedful: workerNames.filter(isHeedful),
      instances,
      databaseUrl: database.url,
      serverUrls: serverMachines.map(urlOf),
      without: options.without,
    },
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

/** Notes when we first saw that a worker was given up. */
function watchVerdicts(pool: pg.Pool) {
  const givenUp: GivenUp[] = [];
  let seen = 0;
  let looking: Promise<void> | undefined;
  async function look(): Promise<void> {
    const { rows } = await pool.query<{ seq: string; name: string; pid: number; server: string }>(
      'select seq, name, pid, server from chaos.given_up where seq > $1 order by seq',
      [seen],
    );
    for (const { seq, name, pid, server } of rows) {
      seen = Number(seq);
      givenUp.push({ name, pid, server, seenAt: nowMs() });
    }
  }
  const timer = setInterval(() => {
    // the database may be away; the next look finds what this one has missed
    looking ??= look()
      .catch(() => {})
      .finally(() => {
        looking = undefined;
      });
  }, WATCH_EVERY_MS);
  return {
    givenUp,
    async look() {
      clearInterval(timer);
      await looking;
      await look();
    },
    stop: () => clearInterval(timer),
  };
}

function startLoad({ options, folder }: Run, urls: string[]) {
  const settings = { urls, rate: options.rate, seed: options.seed, ledger: join(folder, 'ledger.log') };
  const child: ChildProcess = fork(fileURLToPath(new URL('./load.ts', import.meta.url)), [], {
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, CHAOS_LOAD: JSON.stringify(settings) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ask = async (what: string): Promise<LoadCount> => {
    const answer = once(child, 'message', { signal: AbortSignal.timeout(60_000) });
    child.send(what);
    return ((await answer) as [LoadCount])[0];
  };
  return { stop: () => ask('stop'), count: () => ask('count'), kill: () => void child.kill('SIGKILL') };
}

async function sayProgress(pool: pg.Pool, load: { count(): Promise<LoadCount> }): Promise<void> {
  try {
    const { acknowledged, refused, unknown, left } = await load.count();
    const { rows } = await pool.query('select state::text, count(*)::int from drover.job group by state order by 1');
    const waiting = rows.map(({ state, count }) => `${count} ${state}`).join(', ') || 'nothing';
    say(
      `— ${acknowledged} acknowledged, ${refused} refused, ${unknown} unknown, ${left} not sent; in the database: ${waiting}`,
    );
  } catch {
    // the database is away, or the load is just ending
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

async function until(momentMs: number, signal: AbortSignal): Promise<void> {
  await delay(Math.max(0, momentMs - nowMs()), undefined, { signal });
}

function sayEndings(instances: readonly Instance[]): void {
  const endings = new Map<string, number>();
  for (const { role, byItself, ending } of instances) {
    const what = `${role}: ${ending ?? 'alive'}${byItself ? ' by itself' : ''}`;
    endings.set(what, (endings.get(what) ?? 0) + 1);
  }
  say(`ends of processes: ${[...endings].map(([what, count]) => `${count} × ${what}`).join(', ')}`);
}

function report(findings: Finding[], options: ChaosOptions, commit: string, folder: string): number {
  console.log(`\n${'invariant'.padEnd(66)}${'checked'.padStart(10)}${'violated'.padStart(10)}`);
  for (const { name, promise, checked, violated, note } of findings) {
    console.log(
      `${`${name.padEnd(5)}${promise}`.padEnd(66)}${String(checked).padStart(10)}${String(violated).padStart(10)}`,
    );
    if (note) console.log(`     ${note}`);
  }
  const broken = findings.filter(({ violated }) => violated > 0);
  for (const { name, promise, examples } of broken)
    console.log(`\n${name} ${promise}:\n${examples.map((example) => `  ${example}`).join('\n')}`);
  const verdict =
    broken.length === 0 ? 'every invariant held' : `VIOLATED: ${broken.map(({ name }) => name).join(', ')}`;
  console.log(`\n${verdict}; seed ${options.seed}, commit ${commit}, logs in ${folder}\n${commandOf(options)}`);
  if (options.without.length > 0) return reportControl(broken, options.without);
  return broken.length === 0 ? 0 : 1;
}

/** Of a run without a protection: good if it found what the protection keeps from happening. */
function reportControl(broken: readonly Finding[], without: ChaosOptions['without']): number {
  const isFound = (name: string) => broken.some((finding) => finding.name === name);
  const unseen = without.filter((mechanism) => !FOUND_WITHOUT[mechanism].some(isFound));
  for (const mechanism of unseen) {
    console.log(
      `the checker is blind: nothing of ${FOUND_WITHOUT[mechanism].join(', ')} was found without ${mechanism}`,
    );
  }
  if (unseen.length === 0) console.log(`as it must be without ${without}`);
  return unseen.length === 0 ? 0 : 1;
}
