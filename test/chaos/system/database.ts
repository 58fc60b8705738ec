/**
 * The PostgreSQL of the run, which faults may stop, kill, freeze and give another time. It uses the same programs as
 * the embedded one but is controlled here, because the embedded one does not allow its clock to be changed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { findBinaries } from '../../../packages/server/src/db/embedded/binaries.js';
import { chooseUser, runAs } from '../../../packages/server/src/db/embedded/run-as.js';
import type { FakeClock } from './fake-clock.js';
import { isAlive } from './network.js';

const DEFAULT_PORT = 5432;
const START_MS = 60_000;
/** A slower shutdown ends as a crash: libfaketime can leave the postmaster waiting for a lock of a killed child. */
const STOP_MS = 30_000;
const STOP_SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const;

export type ChaosDatabase = {
  readonly url: string;
  /** Stops it, cleanly or as a crash. */
  stop(how: keyof typeof STOP_SIGNALS): Promise<void>;
  /** Resolves when it accepts connections. */
  start(): Promise<void>;
  /** Freezes or resumes all its processes. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Its time, in milliseconds; rejects if it does not answer. */
  readClock(): Promise<number>;
};

type Where = { folder: string; address: string; subnet: string; port?: number; clock: FakeClock | undefined };

export async function createDatabase({ folder, address, subnet, clock, ...where }: Where): Promise<ChaosDatabase> {
  const port = where.port ?? DEFAULT_PORT;
  const cluster = join(folder, 'cluster');
  const user = await chooseUser(cluster);
  const { initdb, postgres } = await findBinaries(user);
  await mkdir(cluster, { recursive: true });
  if (user) for (const path of [folder, cluster]) await chown(path, user.uid, user.gid);
  const made = await runAs(user, initdb, [
    '-D',
    cluster,
    '--username',
    'drover',
    '--auth',
    'trust',
    '--encoding',
    'UTF8',
    '--locale',
    'C',
  ]);
  if (!made.ok) throw new Error(`no database in ${cluster}: ${made.output}`);
  // reachable only from the back network
  await writeFile(join(cluster, 'pg_hba.conf'), `host all all ${subnet} trust\n`);
  const settings = {
    ...{ listen_addresses: address, port: String(port), unix_socket_directories: '', max_connections: '200' },
    ...{ shared_buffers: '128MB', max_wal_size: '1GB', timezone: 'UTC', log_timezone: 'UTC' },
    // counts what the run says at its end
    ...{ track_functions: 'pl' },
    // the backend of a server that was cut off must not stay for hours
    ...{ tcp_user_timeout: '10s', tcp_keepalives_idle: '5', tcp_keepalives_interval: '2' },
  };
  const args = ['-D', cluster, ...Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])];
  const url = `postgres://drover@${address}:${port}/postgres`;
  let child: ChildProcess | undefined;

  /** The postmaster and all its children; each backend is in a session of its own. */
  async function pids(): Promise<number[]> {
    const parent = child?.pid ?? 0;
    const found = [parent];
    for (const entry of await readdir('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      // a process may end meanwhile
      const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => '');
      if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent) found.push(Number(entry));
    }
    return found;
  }

  async function signalAll(signal: NodeJS.Signals): Promise<void> {
    for (const pid of await pids()) if (isAlive(pid)) process.kill(pid, signal);
  }

  async function isAnswering(): Promise<boolean> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query('select 1');
      return true;
    } catch {
      // not yet
      return false;
    } finally {
      await client.end().catch(() => {});
    }
  }

  return {
    url,
    async readClock() {
      const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
      client.on('error', () => {});
      try {
        await client.connect();
        const { rows } = await client.query('select extract(epoch from clock_timestamp())::float * 1000 as at');
        return rows[0].at as number;
      } finally {
        await client.end().catch(() => {});
      }
    },
    async start() {
      const log = await open(join(folder, 'server.log'), 'a');
      child = spawn(postgres, args, {
        cwd: cluster,
        stdio: ['ignore', log.fd, log.fd],
        env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC', ...clock?.env },
        ...user,
      });
      await log.close();
      const deadline = performance.now() + START_MS;
      while (!(await isAnswering())) {
        if (child.exitCode !== null) throw new Error(`PostgreSQL ended at its start; see ${folder}/server.log`);
        if (performance.now() > deadline) throw new Error('PostgreSQL does not answer');
        await delay(50);
      }
    },
    async stop(how) {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(STOP_SIGNALS[how]);
      const limit = setTimeout(() => void signalAll('SIGKILL'), STOP_MS);
      await ended;
      clearTimeout(limit);
    },
    freeze: () => signalAll('SIGSTOP'),
    thaw: () => signalAll('SIGCONT'),
  };
}
