/**
 * A server is killed, or frozen for longer than a lease, at each step of a job's life. The other server and the workers
 * finish whatever it had begun: nothing is lost, nothing runs twice, and a grant that did not reach its worker uses up
 * no attempt.
 */
import { spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '@drover/protocol';
import { FAILPOINTS } from '@drover/protocol/test-points';
import { createClient } from '@drover/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { createProcesses, type Processes, until } from './support/processes.js';

/** At least, and at most: more are added until the server has met its end. */
const JOBS = 200;
const MOST_JOBS = 5000;
const BATCH = 10;
const TEST_MS = 40_000;
/** So long that no lease runs out, however busy the machine is: no job may have to wait for that. */
const LEASE_BESIDE_DEATH_MS = 30_000;
/** A worker leaves a frozen server after 3 beats, 0.6 s, and is declared dead only 5 s after its last renewal. */
const LEASE_BESIDE_FREEZE_MS = 4000;
/** Longer than that lease and its grace of 1 % and 1 s. */
const FROZEN_MS = 5500;

/** How often a place is passed before the server dies there: in the middle of the work, where there is a middle. */
const PASSES: Record<(typeof FAILPOINTS.server)[number], number> = {
  'insert.before': 5,
  'insert.committed': 5,
  'claim.committed': 1,
  'claim.sent': 1,
  'outcomes.before': 5,
  'outcomes.committed': 5,
  'session.opened': 1,
  'renew.before': 3,
  'lose.before': 3,
};

let database: TestDatabase;
let processes: Processes;
/** By the clock of the database. */
let startedAt: string;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.error(processes.log());
  await processes.end();
});

describe('D6, D9, H1: a server that is killed', () => {
  it.each(FAILPOINTS.server)(
    'at %s costs no job, no attempt and no second run',
    { timeout: TEST_MS },
    async (place) => {
      const queue = `kill-${place}`;
      const { acknowledged, breaking } = await runJobs(`${place}:${PASSES[place]}`, queue, LEASE_BESIDE_DEATH_MS);
      expect(await breaking.exited).toBe('SIGKILL');
      await expectEachOnce(acknowledged, queue);
    },
  );
});

// Its workers move to the other server before their leases are over, so no job is lost. When it resumes, the jobs that it
// still believes to be under way have ended elsewhere.
describe('D6, D9: a server that is frozen for longer than a lease and resumes', () => {
  it.each(FAILPOINTS.server)(
    'at %s costs no job, no attempt and no second run',
    { timeout: TEST_MS },
    async (place) => {
      const queue = `stop-${place}`;
      const { acknowledged, breaking } = await runJobs(`${place}:${PASSES[place]}:stop`, queue, LEASE_BESIDE_FREEZE_MS);
      expect(breaking.child.signalCode).toBeNull();
      // a worker that was never welcomed does not know the lease: it waits for the frozen server, and holds no job
      await expectEachOnce(acknowledged, queue, place === 'session.opened' ? ['one'] : []);
    },
  );
});

/** Adds jobs through both servers, of which one will break, and waits until nothing is left to do. */
async function runJobs(failpoint: string, queue: string, leaseMs: number) {
  processes = createProcesses();
  startedAt = await databaseTime();
  const flags = ['--lease', `${leaseMs}ms`];
  const well = await processes.startServer(database.url, { flags });
  const breaking = await processes.startServer(database.url, { failpoint, flags });
  const { pid = 0 } = breaking.child;
  // each knows one server and learns of the other: so the one that breaks has a worker
  processes.startWorker('one', [breaking.url]);
  processes.startWorker('two', [well.url]);

  const broken = failpoint.endsWith('stop') ? freezeOnce(pid) : breaking.exited;
  let isBroken = false;
  broken.then(() => {
    isBroken = true;
  });
  const acknowledged: string[] = [];
  const clients = [
    [breaking.url, well.url],
    [well.url, breaking.url],
  ].map((url) => createClient({ url, timeout: '30s' }));
  await Promise.all(
    clients.map(async (client) => {
      for (let added = 0; added < JOBS / 2 || (!isBroken && added < MOST_JOBS / 2); added += BATCH) {
        const jobs = Array.from({ length: BATCH }, (_, index) => ({
          ...{ job: 'work', payload: { ms: index % 5 === 0 ? 20 : 0, number: added + index } },
          options: { id: newId(), queue },
        }));
        acknowledged.push(...(await client.enqueueMany(jobs)).map(({ id }) => id));
      }
    }),
  );
  // some places are passed while nothing happens
  await broken;
  await until('no job is left', async () => {
    const { rows } = await database.pool.query('select from drover.job where queue = $1 limit 1', [queue]);
    return rows.length === 0;
  });
  await Promise.all(clients.map((client) => client.close()));
  return { acknowledged, breaking };
}

/** Waits until the process has frozen itself, and resumes it when its workers' leases are over. */
async function freezeOnce(pid: number): Promise<void> {
  const stateOf = () => spawnSync('ps', ['-o', 'state=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim();
  await until('the server is frozen', () => stateOf().startsWith('T'));
  await delay(FROZEN_MS);
  process.kill(pid, 'SIGCONT');
}

/**
 * Every job that was acknowledged, and no other, has succeeded in its first attempt, by one execution. No worker was
 * declared dead but one of `idle`, and that has lost no job either.
 */
async function expectEachOnce(acknowledged: string[], queue: string, idle: readonly string[] = []): Promise<void> {
  expect((await deadWorkers()).filter(({ name }) => !idle.includes(name))).toEqual([]);
  const rows = await finished(queue);
  expect(rows.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
  const isFine = ({ state, attempt, lost }: Finished) => state === 'succeeded' && attempt === 1 && lost === 0;
  expect(rows.filter((row) => !isFine(row))).toEqual([]);
  const executions = processes.executions();
  expect(executions.filter(({ attempt, to }) => attempt !== 1 || to === undefined)).toEqual([]);
  expect(executions.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
}

/** Workers of this test that were declared dead because their lease ran out; those of earlier tests all are, in the end. */
async function deadWorkers(): Promise<{ name: string; why: string }[]> {
  const { rows } = await database.pool.query(
    `select name, last_error as why from drover.session where ending = 'dead' and started_at >= $1`,
    [startedAt],
  );
  return rows;
}

async function databaseTime(): Promise<string> {
  const { rows } = await database.pool.query('select now()::text as now');
  return rows[0].now;
}

type Finished = { id: string; state: string; attempt: number; lost: number };

async function finished(queue: string): Promise<Finished[]> {
  const { rows } = await database.pool.query<Finished>(
    'select id, state, attempt, lost_attempts as lost from drover.job_history where queue = $1',
    [queue],
  );
  return rows;
}
