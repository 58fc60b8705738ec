/**
 * Clocks that are set while schedules run. That of a server decides nothing: it is moved by a module that is loaded into the
 * process. That of the database decides everything: moving it takes libfaketime, which `npm test` installs where it can.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../../packages/server/src/db/migrate.js';
import { checkLedger } from '../../packages/server/test/schedules/support/check-ledger.js';
import { type ChaosDatabase, createDatabase } from '../chaos/system/database.js';
import { createFakeClock, type FakeClock } from '../chaos/system/fake-clock.js';
import { describeIf } from '../support/describe-if.js';
import { freePort } from '../support/free-port.js';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const TEST_MS = 120_000;
const HOUR_MS = 3_600_000;
const JUMPING = new URL('../support/programs/jumping-clock.mjs', import.meta.url).href;
const job = { type: 'nobody-runs-this' };

describe('the clock of a server jumps (J7, H5, V2)', () => {
  const stage = createStage();
  const SCHEDULES = 100;
  const JUMPS_MS = [3 * HOUR_MS, -3 * HOUR_MS, 30_000, -20 * HOUR_MS, -900, 20 * HOUR_MS, 0];
  const STAY_MS = 1200;

  const startJumping = () => stage.startServer({ env: { NODE_OPTIONS: `--import ${JUMPING}` } });

  /** By what it shows as the next second: a preview counts from the clock of the server. */
  async function clockOf(server: ServerProcess): Promise<number> {
    const { occurrences } = await stage.client(server.url).schedules.preview({ cron: '* * * * * *', count: 1 });
    return Date.parse(occurrences[0]?.at ?? '');
  }

  async function setClock(server: ServerProcess, clockAheadMs: number): Promise<void> {
    server.tell({ clockAheadMs });
    await until(`the clock of ${server.name} is set`, async () => {
      return Math.abs((await clockOf(server)) - Date.now() - clockAheadMs) < 3000;
    });
  }

  it(
    'and each occurrence is fired once, none early, none lost',
    async () => {
      const servers = await Promise.all([startJumping(), startJumping()]);
      const client = stage.client(servers[0].url);
      await client.schedules.put('s0', { cron: '* * * * * *', catchUp: 'all', job });
      await stage.pool.query(
        `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at)
         select 's' || n, s.definition, s.job, date_trunc('milliseconds', now()), now(), now()
         from drover.schedule s, generate_series(1, $1) n where s.name = 's0'`,
        [SCHEDULES - 1],
      );
      // never both the same: the second is where the first will be
      for (const [index, aheadMs] of JUMPS_MS.entries()) {
        await setClock(servers[0], aheadMs);
        await setClock(servers[1], JUMPS_MS[(index + 1) % JUMPS_MS.length] as number);
        await sleep(STAY_MS);
      }
      await Promise.all(servers.map((server) => server.stop()));
      const { occurrences, latestMs } = await checkLedger(stage.pool, '* * * * * *', SCHEDULES);
      expect(occurrences).toBeGreaterThan((SCHEDULES * JUMPS_MS.length * STAY_MS) / 1000 / 2);
      // a clock that is 20 hours off delays nothing
      expect(latestMs).toBeLessThan(5000);
    },
    TEST_MS,
  );
});

const folder = await mkdtemp(join(tmpdir(), 'drover-clock-'));
// PostgreSQL does not run as root and has to get in
await chmod(folder, 0o755);
const clock = createFakeClock(join(folder, 'clock'));
const describeJumps = describeIf(
  clock !== undefined,
  'libfaketime is not installed: WHAT A JUMP OF THE DATABASE’S CLOCK DOES TO SCHEDULES WAS NOT TESTED. ' +
    'Install the Debian package faketime, or run npm test as root.',
);
afterAll(() => rm(folder, { recursive: true, force: true }));

describeJumps('the clock of the database jumps (J7, H5)', () => {
  let database: ChaosDatabase;
  const stage = createStage(async () => {
    const where = { folder: join(folder, 'database'), address: '127.0.0.1', subnet: '127.0.0.1/32', clock };
    database = await createDatabase({ ...where, port: await freePort() });
    await database.start();
    await migrate(database.url);
    const pool = new pg.Pool({ connectionString: database.url, max: 2 });
    pool.on('error', () => {});
    const drop = async () => {
      await pool.end();
      await database.stop('fast');
    };
    return { url: database.url, pool, drop };
  });
  const EVERY_MS = 600_000;
  const JUMP_SECONDS = 3 * 3600;
  let server: ServerProcess;

  beforeAll(async () => {
    server = await stage.startServer();
  }, TEST_MS);

  const nowMs = async () => {
    const { rows } = await stage.pool.query('select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as ms');
    return rows[0].ms as number;
  };

  async function jump(seconds: number): Promise<void> {
    (clock as FakeClock).jump(seconds);
    // each process of the database looks once a second
    await until(
      'the database has another time',
      async () => Math.abs((await nowMs()) - Date.now() - seconds * 1000) < 5000,
    );
    await sleep(1500);
  }

  const ledger = async (name: string) =>
    (
      await stage.pool.query<{ what: string; ms: number; count: number; job: string | null }>(
        `select coalesce(o.reason, o.state) as what, floor(extract(epoch from o.nominal_at) * 1000)::float8 as ms,
           o.occurrences as count, o.job_id::text as job
         from drover.occurrence o join drover.schedule s on s.id = o.schedule_id where s.name = $1 order by o.nominal_at`,
        [name],
      )
    ).rows;
  const whatOf = async (name: string) => (await ledger(name)).map(({ what }) => what);

  it(
    'forward: schedules catch up by their policy; back: nothing is fired twice; afterwards they fire on time',
    async () => {
      const client = stage.client(server.url);
      // five minutes away from now, so that no occurrence is near the time after the jump
      const firstMs = (await nowMs()) + EVERY_MS / 2;
      const anchor = new Date(firstMs).toISOString();
      const count = Math.round((JUMP_SECONDS * 1000) / EVERY_MS);
      for (const catchUp of ['all', 'last', 'none'] as const)
        await client.schedules.put(catchUp, { every: '10m', anchor, catchUp, job });
      await client.schedules.put('second', { every: '1s', catchUp: 'last', job });
      const beganMs = Number(
        (
          await stage.pool.query(
            `select extract(epoch from created_at) * 1000 as ms from drover.schedule where name = 'second'`,
          )
        ).rows[0].ms,
      );
      await until('the schedule of every second runs', async () => (await ledger('second')).length >= 2);

      await jump(JUMP_SECONDS);
      await until(
        'all have caught up',
        async () => (await whatOf('all')).length === count && (await whatOf('none')).length === count,
      );
      expect(await whatOf('all')).toEqual(Array(count).fill('fired'));
      expect(await whatOf('last')).toEqual([...Array(count - 1).fill('missed'), 'fired']);
      expect(await whatOf('none')).toEqual(Array(count).fill('missed'));

      await jump(0);
      const before = await Promise.all(['all', 'last', 'none', 'second'].map(ledger));
      await sleep(3000);
      expect(await Promise.all(['all', 'last', 'none', 'second'].map(ledger))).toEqual(before);

      // it resumes where it was, and no occurrence is repeated or left out
      await jump(JUMP_SECONDS + 20);
      await until('the schedule of every second fires again', async () => {
        return (await ledger('second')).length > (before[3]?.length ?? 0) + 10;
      });
      expect(await server.stop()).toBe(0);
      expect((await whatOf('all')).length).toBe(count);
      await everySecondOnce(beganMs);
      const { rows } = await stage.pool.query(
        `select (select count(*)::int from drover.job) as jobs, count(distinct job_id)::int as fired
         from drover.occurrence where state = 'fired'`,
      );
      expect(rows[0].jobs).toBe(rows[0].fired);
    },
    TEST_MS,
  );

  /** Alone or in a run, each second since then has one place in the ledger. */
  async function everySecondOnce(beganMs: number): Promise<void> {
    let expectedMs = Math.floor(beganMs / 1000) * 1000 + 1000;
    for (const { ms, count } of await ledger('second')) {
      expect(ms).toBe(expectedMs);
      expectedMs += count * 1000;
    }
    expect(expectedMs - beganMs).toBeGreaterThan(JUMP_SECONDS * 1000);
  }
});
