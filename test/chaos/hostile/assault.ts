/** Runs the hostile peer beside the honest ones, and measures the servers meanwhile. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Unit } from '../system/units.js';
import type { Assault, AttackCount, ServerHealth } from './hostile.js';

const EVERY_MS = 250;
const STOP_MS = 30_000;
const METRICS_MS = 10_000;
const RESIDENT = /^VmRSS:\s+(\d+) kB$/m;
const LOOP_P99 = /^nodejs_eventloop_lag_p99_seconds ([\d.e+-]+)$/m;

export type RunningAssault = {
  /** Ends the attacks. */
  end(): Promise<Assault>;
  kill(): void;
};

export async function startAssault(units: readonly Unit[], seed: number): Promise<RunningAssault> {
  const servers = units.filter(({ role }) => role === 'server');
  const child: ChildProcess = fork(fileURLToPath(new URL('./peer.ts', import.meta.url)), [], {
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, CHAOS_PEER: JSON.stringify({ urls: servers.map(({ url }) => url), seed }) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const killed = () => void child.kill('SIGKILL');
  await once(child, 'message', { signal: AbortSignal.timeout(STOP_MS) });
  const peaks = new Map(servers.map(({ name }) => [name, 0]));
  const timer = setInterval(() => {
    for (const { name, instance } of servers) {
      peaks.set(name, Math.max(peaks.get(name) ?? 0, residentBytes(instance?.pid)));
    }
  }, EVERY_MS);
  // each reading of the metric begins a new period, so this one excludes what was before
  await Promise.all(servers.map(loopP99Ms));

  return {
    async end() {
      clearInterval(timer);
      const health = servers.map(async (server): Promise<ServerHealth> => {
        return { server: server.name, peakBytes: peaks.get(server.name) ?? 0, loopP99Ms: await loopP99Ms(server) };
      });
      const measured = await Promise.all(health);
      child.send('stop');
      const [attacks] = await once(child, 'message', { signal: AbortSignal.timeout(STOP_MS) });
      return { attacks: attacks as AttackCount, servers: measured };
    },
    kill: killed,
  };
}

function residentBytes(pid: number | undefined): number {
  try {
    return Number(RESIDENT.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    // it has ended, which a rule reports
    return 0;
  }
}

/** Infinite if the server does not answer. */
async function loopP99Ms({ url }: Unit): Promise<number> {
  const signal = AbortSignal.timeout(METRICS_MS);
  const answer = await fetch(`${url}/metrics`, { signal }).then(
    (response) => response.text(),
    () => '',
  );
  const seconds = LOOP_P99.exec(answer)?.[1];
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1000;
}
