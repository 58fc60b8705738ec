/**
 * A worker that is killed between the line of its journal, which says that a held job is started, and the first line of
 * the handler. Such a job cannot be told apart from one that has begun, so it waits for a person, and says why.
 */
import { createClient, defineJob } from '@drover/sdk';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { createProcesses, type OwnedServer, type Processes, until } from './support/processes.js';

const held = defineJob<{ ms: number; number: number }>({ type: 'work', onLost: 'hold' });
const TEST_MS = 90_000;
const WITH_JOURNAL = { hasJournal: true };

let database: TestDatabase;
let processes: Processes;
let server: OwnedServer;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  processes = createProcesses();
  server = await processes.startServer(database.url);
});
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.error(processes.log());
  await processes.end();
});

async function killedBeforeTheHandler() {
  const worker = processes.startWorker('one', [server.url], { ...WITH_JOURNAL, failpoint: 'hold.journaled:1' });
  const client = createClient({ url: server.url });
  const job = await client.enqueue(held, { ms: 0, number: 7 });
  expect(await worker.exited).toBe('SIGKILL');
  const isUnknown = async () => (await job.get()).state === 'unknown';
  const lastError = async () => (await job.get()).attempts.at(-1)?.error;
  return { client, job, isUnknown, lastError };
}

type Killed = Awaited<ReturnType<typeof killedBeforeTheHandler>>;

async function expectRetryRunsIt({ client, job }: Killed): Promise<void> {
  expect(processes.executions()).toEqual([]);
  await job.retry();
  expect(await job.result()).toBe(7);
  expect(processes.executions()).toMatchObject([{ id: job.id, attempt: 2 }]);
  await client.close();
}

it('J5, J6: becomes unknown as soon as the next process has read the journal, says so, and runs when a person retries it', {
  timeout: TEST_MS,
}, async () => {
  const killed = await killedBeforeTheHandler();
  processes.startWorker('one', [server.url], WITH_JOURNAL);
  await until('the job is unknown', killed.isUnknown);
  expect(await killed.lastError()).toMatchObject({
    code: 'lost',
    message: expect.stringMatching(/process of the worker ended .* journal .* begun, was just about to/),
  });
  await expectRetryRunsIt(killed);
});

it('J5, J6: stays unknown if the next process comes only when the lease is over, because its journal names the job', {
  timeout: TEST_MS,
}, async () => {
  const killed = await killedBeforeTheHandler();
  await until('the worker is declared dead', killed.isUnknown);
  expect(await killed.lastError()).toMatchObject({ code: 'lost', message: expect.stringContaining('worker was lost') });
  processes.startWorker('one', [server.url], WITH_JOURNAL);
  await until('the journal was read', async () => {
    const { rows } = await database.pool.query('select inherited from drover.job where id = $1', [killed.job.id]);
    return rows[0]?.inherited === true;
  });
  expect(await killed.isUnknown()).toBe(true);
  await expectRetryRunsIt(killed);
});
