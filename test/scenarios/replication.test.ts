/** A database that must have every commit on a second machine, while there is no second machine. */
import { expect, test } from 'vitest';
import { startOwnPostgres } from '../support/own-postgres.js';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

const stage = createStage(startOwnPostgres);

async function setStandby(name: string): Promise<void> {
  await stage.pool.query(`alter system set synchronous_standby_names = '${name}'`);
  await stage.pool.query('select pg_reload_conf()');
}

/** The statement that adds a job and waits for the standby. */
const waitingInsert = () =>
  until('an insert waits for the standby', async () => {
    const { rows } = await stage.pool.query<{ pid: number }>(
      `select pid from pg_stat_activity where wait_event = 'SyncRep' and query ~ 'insert_jobs|pg_logical_emit_message'
       order by pid`,
    );
    return rows[0];
  });

test('H3: a job is not acknowledged before its commit is on the standby, also when that wait is cancelled', async () => {
  const server = await stage.startServer({ flags: { lease: '10m' } });
  await stage.startWorker({ name: 'worker', url: server.url });
  const client = stage.client(server.url);
  await setStandby('absent');
  let isAcknowledged = false;
  const added = client.enqueue('sum', { a: 1, b: 2 }).then((handle) => {
    isAcknowledged = true;
    return handle;
  });
  const { pid } = await waitingInsert();
  expect(isAcknowledged).toBe(false);
  // PostgreSQL now answers that the statement is done, with a warning that it is on this machine alone
  await stage.pool.query('select pg_cancel_backend($1)', [pid]);
  await until('its statement has ended', async () => {
    const { rows } = await stage.pool.query(`select from pg_stat_activity where pid = $1 and wait_event = 'SyncRep'`, [
      pid,
    ]);
    return rows.length === 0;
  });
  expect(isAcknowledged).toBe(false);
  await waitingInsert();
  expect(isAcknowledged).toBe(false);

  await setStandby('');
  expect(await (await added).result({ timeout: '20s' })).toEqual({ sum: 3 });
});
