/** A server is killed while it writes that jobs have failed for good: what must follow, follows once. */
import { newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { createProcesses, type Processes, until } from './support/processes.js';

const JOBS = 20;

let database: TestDatabase;
let processes: Processes;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.error(processes.log());
  await processes.end();
});

it.each(['outcomes.before', 'outcomes.committed'])(
  'a server that is killed at %s costs no call of onFailure and adds none',
  { timeout: 40_000 },
  async (place) => {
    processes = createProcesses();
    const queue = `fails-${place}`;
    const well = await processes.startServer(database.url);
    const breaking = await processes.startServer(database.url, { failpoint: `${place}:1` });
    processes.startWorker('one', [breaking.url, well.url]);
    const client = createClient({ url: well.url });
    const ids = Array.from({ length: JOBS }, () => newId());
    await client.enqueueMany(
      ids.map((id) => ({ job: 'fails', options: { id, queue, maxAttempts: 1, onFailure: 'fails/on-failure' } })),
    );
    await until('no job is left', async () => {
      const { rows } = await database.pool.query('select from drover.job where queue = $1 limit 1', [queue]);
      return rows.length === 0;
    });
    await client.close();
    const { rows } = await database.pool.query(
      `select parent_id, state, result from drover.job_history where queue = $1 and type = 'fails/on-failure'`,
      [queue],
    );
    expect(rows.map(({ parent_id }) => parent_id).sort()).toEqual(ids.sort());
    for (const { parent_id, state, result } of rows) {
      expect({ state, result }).toEqual({ state: 'succeeded', result: { failed: parent_id, reason: 'on purpose' } });
    }
  },
);
