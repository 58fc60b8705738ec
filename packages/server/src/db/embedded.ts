/**
 * A real PostgreSQL in a data folder, for development, tests and `npm start`.
 *
 * ```
 * dataDir/owner.json   who runs it now (see owner-lock.ts)
 *        /password     of the database user, readable by its owner alone
 *        /server.log   what PostgreSQL says
 *        /cluster/     PostgreSQL's data, owned by the user it runs as
 * ```
 *
 * Invariants: one process owns the folder, and only the owner starts or ends a PostgreSQL on it. `cluster` is created
 * by a rename once it is complete. If the owner is killed, a watchdog (a shell that waits for the end of its input)
 * shuts PostgreSQL down. If the watchdog was killed as well, the next owner finds the old PostgreSQL by its pid and
 * command line and shuts it down before it starts its own.
 *
 * PostgreSQL is not in our process group: Ctrl-C must reach only Drover, which stops PostgreSQL last.
 */
import type { ChildProcess } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chown, mkdir, open, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Binaries, findBinaries } from './embedded/binaries.js';
import { takeOwnership } from './embedded/owner-lock.js';
import { commandLine, endProcess, type SignalStep } from './embedded/processes.js';
import { chooseUser, runAs, spawnAs, type User } from './embedded/run-as.js';

const USER = 'drover';
const DATABASE = 'drover';

/** Crash recovery of a large write-ahead log takes time. */
const START_TIMEOUT_MS = 120_000;
const READY_CHECK_MS = 20;
const MAX_START_TRIES = 10;
const START_RETRY_MS = 300;
const MAX_LOG_BYTES = 8 * 1024 * 1024;
const SHOWN_LOG_LINES = 8;

/** Fast shutdown, immediate shutdown, kill. */
const STOP_STEPS: readonly SignalStep[] = [
  { signal: 'SIGINT', waitMs: 20_000 },
  { signal: 'SIGQUIT', waitMs: 5000 },
  { signal: 'SIGKILL', waitMs: 5000 },
];

/** As durable as a production server, sized for a machine that also does other work. */
const SETTINGS: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '128MB',
  max_wal_size: '2GB',
  fsync: 'on',
  synchronous_commit: 'on',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

const ACCESS_RULES = 'host all all 127.0.0.1/32 scram-sha-256\n';

export type EmbeddedPostgresOptions = {
  dataDir: string;
  /** Default: any free port. */
  port?: number;
  logger?: Pick<Logger, 'info' | 'warn'>;
  /** PostgreSQL settings that override or extend ours. */
  settings?: Record<string, string>;
};

export type EmbeddedPostgres = { url: string; pid: number; stop(): Promise<void> };

/** A PostgreSQL to run: its programs, its data, and how to recognise it from outside. */
type Instance = {
  binaries: Binaries;
  user: User;
  cluster: string;
  logFile: string;
  /** Part of the server's command line. Derived from the folder, so a copied folder has another one. */
  mark: string;
};

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = resolve(options.dataDir);
  const user = await chooseUser(join(dataDir, 'cluster'));
  await mkdir(dataDir, { recursive: true });
  await giveTo(user, dataDir);
  const giveBack = await takeOwnership(dataDir);
  try {
    const instance: Instance = {
      binaries: await findBinaries(user),
      user,
      cluster: join(await realpath(dataDir), 'cluster'),
      logFile: join(dataDir, 'server.log'),
      mark: `drover-${createHash('sha256')
        .update(await realpath(dataDir))
        .digest('hex')
        .slice(0, 16)}`,
    };
    await endLeftover(instance, options.logger);
    const password = await prepareCluster(instance, dataDir, options.logger);
    const { child, port } = await launch(instance, options);
    const watchdog = startWatchdog(user, child);
    options.logger?.info({ event: 'postgres.ready', port, pid: child.pid, dataDir }, 'embedded PostgreSQL is ready');

    let stopping: Promise<void> | undefined;
    const stop = async () => {
      watchdog.kill('SIGKILL');
      const gone = await endProcess(child.pid ?? 0, STOP_STEPS);
      if (!gone) throw new Error(`PostgreSQL (process ${child.pid}) in ${dataDir} cannot be stopped`);
      await giveBack();
    };
    return {
      url: `postgres://${USER}:${password}@127.0.0.1:${port}/${DATABASE}`,
      pid: child.pid ?? 0,
      stop: () => {
        stopping ??= stop();
        return stopping;
      },
    };
  } catch (error) {
    await giveBack();
    throw error;
  }
}

/** Ends the PostgreSQL of a dead owner, and removes a stale pid file. */
async function endLeftover(instance: Instance, logger: EmbeddedPostgresOptions['logger']): Promise<void> {
  const pidFile = join(instance.cluster, 'postmaster.pid');
  const pid = Number.parseInt((await readFile(pidFile, 'utf8').catch(() => '')).split('\n')[0] ?? '', 10);
  if (Number.isNaN(pid)) return;
  const command = await commandLine(pid);
  if (command?.includes(instance.mark)) {
    logger?.warn({ event: 'postgres.leftover', pid }, 'ending the PostgreSQL that an earlier run has left');
    if (await endProcess(pid, STOP_STEPS)) return;
    throw new Error(`PostgreSQL (process ${pid}), left in ${instance.cluster} by an earlier run, cannot be stopped`);
  }
  if (command?.includes(instance.cluster)) {
    throw new Error(`the database in ${instance.cluster} is in use by process ${pid} (${command})`);
  }
  // PostgreSQL would refuse to start if the pid now belongs to another process of the same user.
  await rm(pidFile, { force: true });
}

/** Creates the cluster if there is none. Returns the password of its user. */
async function prepareCluster(
  instance: Instance,
  dataDir: string,
  logger: EmbeddedPostgresOptions['logger'],
): Promise<string> {
  const passwordFile = join(dataDir, 'password');
  const kept = (await readFile(passwordFile, 'utf8').catch(() => '')).trim();
  const exists = await stat(join(instance.cluster, 'PG_VERSION')).catch(() => undefined);
  if (exists && kept) return kept;

  const password = randomBytes(24).toString('base64url');
  if (exists) {
    logger?.warn(
      { event: 'postgres.password-lost', passwordFile },
      'the password of the embedded PostgreSQL was lost and is set again',
    );
    await runSingleUser(instance, instance.cluster, `alter user ${USER} password '${password}';\n`);
  } else {
    logger?.info({ event: 'postgres.created', dataDir }, 'creating the embedded PostgreSQL');
    await createCluster(instance, password);
  }
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  await giveTo(instance.user, passwordFile);
  return password;
}

/** What root creates here belongs to the user of the database, who may start it the next time. */
async function giveTo(user: User, path: string): Promise<void> {
  if (user) await chown(path, user.uid, user.gid);
}

async function createCluster(instance: Instance, password: string): Promise<void> {
  const growing = `${instance.cluster}.new`;
  await rm(growing, { recursive: true, force: true });
  await mkdir(growing, { mode: 0o700 });
  await giveTo(instance.user, growing);
  const made = await runAs(
    instance.user,
    instance.binaries.initdb,
    // PostgreSQL's own locale: strings sort the same on every machine, whatever its system libraries are.
    [
      ...['-D', await addressFor(instance.user, growing), '--username', USER, '--auth', 'reject'],
      ...['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
    ],
    { cwd: growing },
  );
  if (!made.ok) throw new Error(`the embedded PostgreSQL could not be created in ${instance.cluster}: ${made.output}`);
  await runSingleUser(instance, growing, `alter user ${USER} password '${password}';\ncreate database ${DATABASE};\n`);
  await writeFile(join(growing, 'pg_hba.conf'), ACCESS_RULES);
  await rename(growing, instance.cluster);
}

/** Runs statements, one per line, without a server, so that no client can connect meanwhile. */
async function runSingleUser(instance: Instance, cluster: string, statements: string): Promise<void> {
  const args = ['--single', '-D', await addressFor(instance.user, cluster), 'postgres'];
  const run = await runAs(instance.user, instance.binaries.postgres, args, { cwd: cluster, input: statements });
  if (!run.ok || run.output.includes('ERROR:')) throw new Error(`cannot prepare ${cluster}: ${run.output}`);
}

/**
 * The path by which the user of the database reaches its folder. Root's folders may be under a path that the user may
 * not enter (/root). PostgreSQL is then started inside the folder, and this path leads there without its parents.
 */
async function addressFor(user: User, cluster: string): Promise<string> {
  if (!user || process.platform !== 'linux') return cluster;
  const canReach = await runAs(user, 'test', ['-x', dirname(cluster)]);
  return canReach.ok ? cluster : '/proc/self/cwd';
}

async function launch(
  instance: Instance,
  options: EmbeddedPostgresOptions,
): Promise<{ child: ChildProcess; port: number }> {
  const address = await addressFor(instance.user, instance.cluster);
  for (let tries = 1; ; tries++) {
    const port = options.port ?? (await freePort());
    const settings = { ...SETTINGS, ...options.settings, port: String(port), cluster_name: instance.mark };
    const args = ['-D', address, ...Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])];
    const log = await openLog(instance);
    const child = spawnAs(instance.user, instance.binaries.postgres, args, {
      cwd: instance.cluster,
      detached: true,
      stdio: ['ignore', log.handle.fd, log.handle.fd],
    });
    const problem = await becomesReady(child, instance.cluster);
    await log.handle.close();
    if (problem === undefined) return { child, port };

    await endProcess(child.pid ?? 0, STOP_STEPS);
    const said = (await readFile(instance.logFile, 'utf8')).slice(log.offset).trim();
    // Both are temporary: the free port was taken meanwhile, or processes of a killed server are still ending.
    const mayPass =
      said.includes('pre-existing shared memory block') || (!options.port && said.includes('already in use'));
    if (!mayPass || tries === MAX_START_TRIES) {
      const lines = said.split('\n').slice(-SHOWN_LOG_LINES).join('\n');
      throw new Error(`the embedded PostgreSQL in ${instance.cluster} did not start: ${problem}\n${lines}`);
    }
    await delay(START_RETRY_MS);
  }
}

/** Undefined once it accepts connections, otherwise the error. */
async function becomesReady(child: ChildProcess, cluster: string): Promise<string | undefined> {
  let ended: string | undefined;
  child.on('error', (error) => {
    ended = error.message;
  });
  child.on('exit', (code, signal) => {
    ended ??= `it ended with ${signal ?? `code ${code}`}`;
  });
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < deadline) {
    await delay(READY_CHECK_MS);
    if (ended !== undefined) return ended;
    // The eighth line is the state that PostgreSQL writes for its own pg_ctl.
    const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
    if (Number(lines[0]) === child.pid && lines[7]?.trim() === 'ready') return undefined;
  }
  return `it was not ready after ${START_TIMEOUT_MS / 1000} s`;
}

async function openLog({ logFile: file, user }: Instance) {
  const size = await stat(file).then(
    (stats) => stats.size,
    () => 0,
  );
  if (size > MAX_LOG_BYTES) await rename(file, `${file}.old`);
  const handle = await open(file, 'a', 0o600);
  await giveTo(user, file);
  return { handle, offset: size > MAX_LOG_BYTES ? 0 : size };
}

/** Our end, for any reason, closes the watchdog's input. */
function startWatchdog(user: User, child: ChildProcess): ChildProcess {
  const watchdog = spawnAs(user, '/bin/sh', ['-c', 'read -r _; kill -INT "$1"', 'sh', String(child.pid)], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // Without a shell there is no watchdog; the next start ends what is left.
  watchdog.on('error', () => {});
  watchdog.stdin?.on('error', () => {});
  child.on('exit', () => watchdog.kill('SIGKILL'));
  return watchdog;
}

function freePort(): Promise<number> {
  return new Promise((resolvePort, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolvePort(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
