/**
 * A server dies, or stands still for longer than a lease, at each step of a job's life. Whatever it had begun, the
 * other server and the workers finish: nothing is lost, nothing runs twice, no attempt is used up by a grant that
 * did not reach its worker.
 */
import { spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { FAILPOINTS, type Failpoint } from '../../src/failpoint.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { createProcesses, type Execution, type Processes, until } from './support/processes.js';

/** At least, and at most: more are added until the server has met its end. */
const JOBS = 200;
const MOST_JOBS = 5000;
const BATCH = 10;
const TEST_MS = 40_000;
/** Longer than the lease and its grace. */
const FROZEN_MS = 4500;

/** How often a place is passed before the server dies there: in the middle of the work, where there is a middle. */
const PASSES: Record<Failpoint, number> = {
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
let startedAt: Date;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.error(processes.log());
  await processes.end();
});

describe('a server that dies', () => {
  it.each(FAILPOINTS)('at %s costs no job, no attempt and no second run', { timeout: TEST_MS }, async (place) => {
    const { acknowledged, breaking } = await runJobs(`${place}:${PASSES[place]}`, `kill-${place}`);
    expect(await breaking.exited).toBe('SIGKILL');
    await expectEachOnce(acknowledged, `kill-${place}`);
  });
});

// Its workers go to the other server before their leases are over, so nobody loses anything; and when it goes on, what
// it still believes to be under way has been settled elsewhere.
describe('a server that stands still for longer than a lease and goes on', () => {
  it.each(FAILPOINTS)('at %s costs no job, no attempt and no second run', { timeout: TEST_MS }, async (place) => {
    const { acknowledged, breaking } = await runJobs(`${place}:${PASSES[place]}:stop`, `stop-${place}`);
    expect(breaking.child.signalCode).toBeNull();
    await expectEachOnce(acknowledged, `stop-${place}`);
  });
});

/** Adds jobs through both servers, of which one will break, and waits until nothing is left to do. */
async function runJobs(failpoint: string, queue: string) {
  processes = createProcesses();
  startedAt = new Date();
  const well = await processes.startServer(database.url);
  const breaking = await processes.startServer(database.url, { failpoint });
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

/** Waits until the process has stopped itself, and lets it go on when its workers' leases are over. */
async function freezeOnce(pid: number): Promise<void> {
  const stateOf = () => spawnSync('ps', ['-o', 'state=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim();
  await until('the server stands still', () => stateOf().startsWith('T'));
  await delay(FROZEN_MS);
  process.kill(pid, 'SIGCONT');
}

/**
 * On a machine so busy that a worker cannot beat for a whole lease, the worker is rightly given up, and what it held runs
 * again, after it has stopped. Where nobody was given up, each job has run once.
 */
async function expectEachOnce(acknowledged: string[], queue: string): Promise<void> {
  const rows = await finished(queue);
  expect(rows.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
  const mayLose = (await givenUpWorkers()) > 0;
  const isFine = ({ state, attempt, lost }: Finished) =>
    state === 'succeeded' && attempt === 1 + lost && (lost === 0 || mayLose);
  expect(rows.filter((row) => !isFine(row))).toEqual([]);
  const lostAttempts = new Map(rows.map(({ id, lost }) => [id, lost]));
  const runs = executionsByJob();
  expect([...runs].filter(([id, list]) => list.length > 1 + (lostAttempts.get(id) ?? 0))).toEqual([]);
  expect([...runs.values()].filter(overlap)).toEqual([]);
  expect(runs.size).toBe(acknowledged.length);
}

/** Workers of this test that were given up because their lease ran out; those of earlier ones all are, sooner or later. */
async function givenUpWorkers(): Promise<number> {
  const { rows } = await database.pool.query(
    `select count(*)::int as count from drover.session where ending = 'dead' and started_at > $1`,
    [startedAt],
  );
  return rows[0].count;
}

function overlap(executions: Execution[]): boolean {
  return executions.some(
    ({ from }, index) => index > 0 && from < (executions[index - 1]?.to ?? Number.POSITIVE_INFINITY),
  );
}

type Finished = { id: string; state: string; attempt: number; lost: number };

async function finished(queue: string): Promise<Finished[]> {
  const { rows } = await database.pool.query<Finished>(
    'select id, state, attempt, lost_attempts as lost from drover.job_history where queue = $1',
    [queue],
  );
  return rows;
}

/** In the order of their starts. */
function executionsByJob(): Map<string, Execution[]> {
  const sorted = processes.executions().sort((one, other) => one.from - other.from);
  const byJob = new Map<string, Execution[]>();
  for (const execution of sorted) byJob.set(execution.id, [...(byJob.get(execution.id) ?? []), execution]);
  return byJob;
}
