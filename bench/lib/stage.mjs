/**
 * The stage of one measurement: one system in a fresh store, with its server process where it has one, and a
 * producer and a worker process. Whatever it opens, `close` ends.
 */
import { join } from 'node:path';
import { loadSystem } from '../systems/index.mjs';
import { startProcess } from './calls.mjs';
import { monotonicMs, sleep } from './clock.mjs';
import { cpuSecondsOfTrees, residentMegabytes } from './cpu.mjs';
import { vacuumAnalyze } from './postgres.mjs';
import { startRedis } from './redis.mjs';

const PROCESSES = join(import.meta.dirname, '../processes');
const EMPTY_POLL_MS = 2;

/** `environment` is { postgres, directory, log, scale }; `aim` is `throughput` or `latency`. */
export async function openStage(system, aim, environment) {
  const closers = [];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    return await build(system, aim, environment, closers, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function build(system, aim, environment, closers, close) {
  const adapter = await loadSystem(system.name);
  const { log } = environment;
  const store = await openFreshStore(system, environment);
  closers.push(store.close);
  const context = { system: system.name, aim, ...store.context };

  await adapter.prepare?.(context);
  const server = await adapter.startServer?.({ ...context, directory: environment.directory, log });
  if (server !== undefined) {
    Object.assign(context, server.context);
    closers.push(server.stop);
  }
  const probe = await adapter.openStore(context);
  closers.push(probe.close);
  const start = async (name) => {
    const started = await startProcess(join(PROCESSES, `${name}.mjs`), context, { log });
    closers.push(started.stop);
    return started;
  };
  const [producer, worker] = await Promise.all([start('producer'), start('worker')]);
  const pids = { store: store.pid, server: server?.pid, worker: worker.pid, producer: producer.pid };

  return {
    system,
    producer,
    worker,
    query: probe.query,
    /** The number of jobs for this system at this run's scale. */
    jobs: (base) => Math.max(200, Math.round(base * environment.scale * system.volume)),
    /** The number of jobs for this system where a smaller scale would measure something else. */
    unscaledJobs: (base) => Math.round(base * system.volume),
    cpuSeconds: () => cpuSecondsOfTrees(pids),
    residentMegabytes: () => residentMegabytes(pids),
    settle: store.settle,
    afterFill: store.afterFill,
    waitUntilEmpty: (maxMs) => waitUntilEmpty(probe, maxMs),
    close,
  };
}

async function openFreshStore(system, { postgres, directory, log }) {
  if (system.store === 'redis') {
    const redis = await startRedis(system.fsync, directory, log);
    const nothing = async () => {};
    const context = { redisPort: redis.port };
    return { pid: redis.pid, context, settle: nothing, afterFill: nothing, close: redis.stop };
  }
  const { databaseUrl, drop } = await postgres.createDatabase();
  return {
    pid: postgres.pid,
    context: { databaseUrl },
    settle: () => postgres.checkpoint(),
    afterFill: () => vacuumAnalyze(databaseUrl),
    close: drop,
  };
}

/** Polls the store; gives the time at which it had no unfinished job, or undefined when the time is up. */
async function waitUntilEmpty(probe, maxMs) {
  const giveUpAt = monotonicMs() + maxMs;
  while ((await probe.unfinished()) > 0) {
    if (monotonicMs() > giveUpAt) return undefined;
    await sleep(EMPTY_POLL_MS);
  }
  return monotonicMs();
}
