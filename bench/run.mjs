/**
 * The orchestrator: every repetition runs every workload for every system, one after the other, so that a noisy
 * minute of the machine hits all systems alike. Each measurement has a fresh database (or a fresh Redis). Raw
 * samples are appended as they come, so an interrupted run loses nothing. Started by scripts/bench.mjs.
 */
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { watchNoise } from './lib/cpu.mjs';
import { parseOptions } from './lib/options.mjs';
import { stopOwnedProcesses } from './lib/owned-processes.mjs';
import { startPostgres } from './lib/postgres.mjs';
import { redisVersion } from './lib/redis.mjs';
import { renderReport, show, summarizeSamples } from './lib/report.mjs';
import { openStage } from './lib/stage.mjs';
import { selectSystems } from './systems/index.mjs';
import { selectWorkloads } from './workloads/index.mjs';

const RESULTS = join(import.meta.dirname, 'results');
const WARM_UP_MS = 6_000;

const options = parseOptions(process.argv.slice(2));
if (options.help !== undefined) {
  console.log(options.help);
  process.exit(0);
}
const workloads = selectWorkloads(options.workloads);
const systems = availableSystems(selectSystems(options.only).filter(isAskedFor));

mkdirSync(RESULTS, { recursive: true });
const stamp = new Date().toISOString().replace(/[:.]/g, '-');
const samplesFile = join(RESULTS, `${stamp}.jsonl`);
const directory = mkdtempSync(join(options.dir, 'drover-bench-'));
chmodSync(directory, 0o755); // PostgreSQL runs as another user when we are root

let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => interrupt());

let failures = 1;
try {
  failures = await main();
} finally {
  if (!interrupted) await cleanUp();
}
if (!interrupted) process.exit(failures > 0 ? 1 : 0);

async function interrupt() {
  interrupted = true;
  // Connections break under whatever is running; that is no news.
  process.on('uncaughtException', () => {});
  process.on('unhandledRejection', () => {});
  await cleanUp();
  process.exit(130);
}

async function cleanUp() {
  await stopOwnedProcesses();
  rmSync(directory, { recursive: true, force: true });
}

/** Gives the number of measurements that failed. */
async function main() {
  const startedAt = Date.now();
  const postgres = systems.some((system) => system.store === 'postgres')
    ? await startPostgres(options.pg, directory)
    : undefined;
  const log = openSync(join(RESULTS, 'processes.log'), 'w');
  const samples = await measureAll({ postgres, directory, log, scale: options.scale });
  if (interrupted) return 0;
  await postgres?.stop();

  const report = renderReport({ samples, systems, description: describe(postgres, startedAt) });
  writeFileSync(join(RESULTS, 'latest.md'), report);
  if (options.json !== undefined) {
    writeFileSync(options.json, JSON.stringify({ samples, summary: summarizeSamples(samples) }, null, 2));
  }
  console.log(`\n${report}\nRaw samples: ${samplesFile}\nThis report: ${join(RESULTS, 'latest.md')}`);
  return samples.filter((sample) => sample.error !== undefined).length;
}

async function measureAll(environment) {
  const samples = [];
  for (let repeat = 1; repeat <= options.repeats; repeat++) {
    for (const workload of workloads) {
      for (const system of systems) {
        if (workload.systems !== undefined && !workload.systems.includes(system.name)) continue;
        const measured = await measure(workload, system, environment);
        if (interrupted) return samples;
        const sample = {
          at: new Date().toISOString(),
          workload: workload.id,
          system: system.name,
          repeat,
          ...measured,
        };
        samples.push(sample);
        appendFileSync(samplesFile, `${JSON.stringify(sample)}\n`);
        console.log(oneLine(sample));
      }
    }
  }
  return samples;
}

/** The failure of one system is a sample too: the others still run. */
async function measure(workload, system, environment) {
  const startedAt = performance.now();
  const finishNoise = watchNoise();
  let stage;
  let outcome;
  try {
    stage = await openStage(system, workload.aim ?? 'throughput', environment);
    if (!options.cold) await warmUp(workload, stage);
    outcome = await workload.run(stage);
  } catch (error) {
    outcome = { error: error?.stack ?? String(error) };
  }
  const noise = finishNoise();
  try {
    await stage?.close();
  } catch (error) {
    outcome.closeError = error?.stack ?? String(error);
  }
  return { ...outcome, noise, seconds: Math.round((performance.now() - startedAt) / 100) / 10 };
}

/** Repeats the work of the workload until it has run for this long. */
async function warmUp(workload, stage) {
  if (workload.warmUp === undefined) return;
  const until = performance.now() + warmUpMs();
  do await workload.warmUp(stage);
  while (performance.now() < until);
}

function warmUpMs() {
  return WARM_UP_MS * Math.min(1, options.scale);
}

/** A quick look leaves out the settings that may lose a second. */
function isAskedFor(system) {
  return options.only !== undefined || !options.quick || system.durable;
}

function availableSystems(selected) {
  const withRedis = selected.filter((system) => system.store === 'redis');
  if (withRedis.length === 0 || redisVersion() !== undefined) return selected;
  const names = withRedis.map((system) => system.name).join(', ');
  console.error(`\n!!! redis-server is not installed. LEFT OUT: ${names}. Bars that name them cannot be judged.\n`);
  return selected.filter((system) => system.store !== 'redis');
}

function describe(postgres, startedAt) {
  const memory = Math.round(totalmem() / 2 ** 30);
  return [
    `${new Date(startedAt).toISOString()}, ${Math.round((Date.now() - startedAt) / 60_000)} minutes, ` +
      `${options.repeats} repetition(s), scale ${options.scale}`,
    `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), ${memory} GiB, Node ${process.version}, ` +
      `PostgreSQL ${postgres?.version ?? '–'}, Redis ${redisVersion() ?? '–'}`,
    'PostgreSQL: synchronous_commit=on, shared_buffers=1GB, max_wal_size=8GB. Redis: append-only file, fsync as named.',
    options.cold
      ? 'Cold: each figure is of the first seconds of processes that have just been started.'
      : `Warm: before a, b, c, d, e, s, f and i are measured, their work is done for ${warmUpMs() / 1000} s or more.`,
    ...systems
      .filter((system) => system.volume !== 1)
      .map((system) => `${system.name} ran with ${system.volume} of the number of jobs`),
  ];
}

function oneLine({ repeat, workload, system, metrics, error, noise, seconds }) {
  const figures = Object.entries(metrics ?? {}).map(([name, value]) => `${name} ${show(value)}`);
  const result = error === undefined ? figures.join(', ') : `FAILED: ${error.split('\n')[0]}`;
  const disturbance = `foreign ${noise.foreign ?? '–'} steal ${noise.steal ?? '–'}`;
  return `#${repeat} ${workload.padEnd(7)} ${system.padEnd(18)} ${result}  [${disturbance}, ${seconds} s]`;
}
