/**
 * Three servers, each a process, over many schedules that fire every second, while servers are killed and frozen and the
 * database's connections are cut. support/check-ledger knows what the ledger must have in the end.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@drover/sdk';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { environmentOf } from '../../../../test/support/test-points/environment.js';
import { startEmbeddedPostgres } from '../../src/db/embedded.js';
import { migrate } from '../../src/db/migrate.js';
import { type CliProcess, startDrover } from '../cli/run-process.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { checkNothingRefused, guardMoves } from '../support/guard-moves.js';
import { checkLedger } from './support/check-ledger.js';

const SCHEDULES = Number(process.env.DROVER_TEST_SCHEDULES ?? 2000);
const SECONDS = Number(process.env.DROVER_TEST_SECONDS ?? 8);
const TEST_MS = 60_000 + 2 * SECONDS * 1000;
const FLAGS = ['--beat', '500ms', '--lease', '3s', '--log-format', 'json'];
const LISTENING = /"address":"(http:[^"]+)"/;

let cwd: string;
let database: TestDatabase;
let servers: CliProcess[];

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'drover-schedules-'));
  database = await createTestDatabase();
  servers = [];
});
afterEach(async () => {
  for (const { child } of servers) child.kill('SIGKILL');
  await Promise.all(servers.map((server) => server.exited()));
  await database.drop();
  await rm(cwd, { recursive: true, maxRetries: 20 });
});

async function startServer(failpoint?: string): Promise<{ server: CliProcess; url: string }> {
  const server = startDrover(['server', '--insecure', '--port', '0', ...FLAGS], {
    cwd,
    env: { DROVER_DATABASE_URL: database.url, ...environmentOf({ failpoint }) },
  });
  servers.push(server);
  return { server, url: (await server.says(LISTENING))[1] as string };
}

/** One schedule by the API, the rest as copies of its row: what is tested is the firing. */
async function putSchedules(url: string, count: number, cron: string): Promise<void> {
  const client = createClient({ url });
  await client.schedules.put('s0', { cron, catchUp: 'all', job: { type: 'nobody-runs-this' } });
  await client.close();
  await database.pool.query(
    `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at)
     select 's' || n, s.definition, s.job, date_trunc('milliseconds', now()), now(), now()
     from drover.schedule s, generate_series(1, $1) n where s.name = 's0'`,
    [count - 1],
  );
}

/** Deletes the schedules' due times, so that nothing more is fired, and waits for what is under way. */
async function stopAll(): Promise<void> {
  for (const server of servers) server.child.kill('SIGCONT');
  await Promise.all(servers.map((server) => server.end('SIGTERM')));
}

const check = (cron: string) => checkLedger(database.pool, cron, SCHEDULES);

/** Waits for this many occurrences: a busy machine needs longer than the time itself. */
async function fired(count: number): Promise<void> {
  await vi.waitFor(
    async () => {
      const { rows } = await database.pool.query('select count(*)::int as count from drover.occurrence');
      expect(rows[0].count).toBeGreaterThan(count);
    },
    { timeout: TEST_MS / 2, interval: 200 },
  );
}

/** A PostgreSQL of its own, which may be broken without harm to other tests. */
async function ownDatabase(): Promise<TestDatabase> {
  const embedded = await startEmbeddedPostgres({ dataDir: join(cwd, 'postgres') });
  await migrate(embedded.url);
  const pool = new pg.Pool({ connectionString: embedded.url, max: 2 });
  pool.on('error', () => {});
  await guardMoves(pool);
  const drop = async () => {
    try {
      await checkNothingRefused(pool);
    } finally {
      await pool.end();
      await embedded.stop();
    }
  };
  return { url: embedded.url, name: 'drover', pool, drop };
}

/** A backend that is killed makes PostgreSQL end all others and recover from its log, as after a loss of power. */
async function crashDatabase(): Promise<void> {
  const { rows } = await database.pool.query<{ pid: number }>(
    `select pid from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' limit 1`,
  );
  process.kill((rows[0] as { pid: number }).pid, 'SIGKILL');
}

describe('many schedules on three servers (J7, H5, V2)', () => {
  it(
    'fire every occurrence exactly once',
    async () => {
      const [first] = await Promise.all([startServer(), startServer(), startServer()]);
      await putSchedules(first.url, SCHEDULES, '* * * * * *');
      await sleep(SECONDS * 1000);
      await fired(SCHEDULES * 3);
      await stopAll();
      const { occurrences, p99Ms } = await check('* * * * * *');
      console.log(`${occurrences} occurrences, p99 lateness ${Math.round(p99Ms)} ms`);
    },
    TEST_MS,
  );

  it(
    'fire every occurrence exactly once while servers die and freeze and connections are cut',
    async () => {
      const [first, second, third, fourth] = await Promise.all([
        startServer(),
        startServer(),
        // dies with its third batch sent and unanswered
        startServer('fire.committed:3'),
        // dies with its fourth batch planned and unsent
        startServer('fire.before:4'),
      ]);
      await putSchedules(first.url, SCHEDULES, '*/2 * * * * *');
      await sleep(2000);
      second.server.child.kill('SIGSTOP');
      await sleep(1500);
      await database.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
      );
      await sleep(1000);
      second.server.child.kill('SIGCONT');
      first.server.child.kill('SIGKILL');
      await startServer();
      await sleep((SECONDS - 4) * 1000);
      await fired(SCHEDULES * 2);
      for (const { server } of [third, fourth]) expect(server.child.signalCode).toBe('SIGKILL');
      await stopAll();
      const { occurrences, latestMs } = await check('*/2 * * * * *');
      console.log(`${occurrences} occurrences, latest ${Math.round(latestMs)} ms`);
    },
    TEST_MS,
  );

  it(
    'fire every occurrence exactly once when the database crashes and recovers',
    async () => {
      await database.drop();
      database = await ownDatabase();
      const [first] = await Promise.all([startServer(), startServer()]);
      await putSchedules(first.url, SCHEDULES, '* * * * * *');
      await sleep(2500);
      await crashDatabase();
      await sleep(Math.max(3000, (SECONDS - 4) * 1000));
      await fired(SCHEDULES * 3);
      await stopAll();
      const { occurrences, latestMs } = await check('* * * * * *');
      console.log(`${occurrences} occurrences, latest ${Math.round(latestMs)} ms`);
    },
    TEST_MS,
  );
});
