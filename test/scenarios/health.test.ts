/** What a server says of its health while a worker works through it, with and without its database. */
import pg from 'pg';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const stage = createStage();
let server: ServerProcess;

beforeAll(async () => {
  server = await stage.startServer();
  await stage.startWorker({ name: 'worker', url: server.url });
});

const ping = async () => {
  const answer = await fetch(`${server.url}/api/ping`);
  return [answer.status, await answer.text()];
};
const deepPing = async () => {
  const answer = await fetch(`${server.url}/api/deep_ping`);
  return { code: answer.status, ...((await answer.json()) as { status: string; checks: object }) };
};
const says = (status: string) =>
  until(`the deep ping says ${status}`, async () => {
    const answer = await deepPing();
    return answer.status === status && answer;
  });
const OKAY = { code: 200, checks: { database: { status: 'okay' }, beat: { status: 'okay' } } };

describe('P8: the health of a server', () => {
  test('is okay, check by check, and it works', async () => {
    expect(await ping()).toEqual([200, 'pong\n']);
    expect(await says('okay')).toMatchObject(OKAY);
    const client = stage.client(server.url);
    const handle = await client.enqueue('sum', { a: 1, b: 2 });
    expect(await handle.result({ timeout: '20s' })).toEqual({ sum: 3 });
  });

  test('is a partial success while the database answers and the beats of the server do not arrive', async () => {
    const connection = await stage.pool.connect();
    await connection.query('begin; lock table drover.server in access exclusive mode');
    try {
      expect(await says('partial_success')).toMatchObject({
        code: 200,
        checks: {
          database: { status: 'okay' },
          beat: { status: 'error', message: expect.stringContaining('no beat') },
        },
      });
    } finally {
      await connection.query('rollback');
      connection.release();
    }
    expect(await says('okay')).toMatchObject(OKAY);
  });

  test('is an error without the database, and okay again with it', async () => {
    const name = new URL(stage.databaseUrl).pathname.slice(1);
    const admin = new pg.Client({ connectionString: inject('databaseUrl') });
    await admin.connect();
    try {
      await admin.query(`alter database ${name} allow_connections false`);
      await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
      const answer = await says('error');
      expect(answer).toMatchObject({ code: 503, checks: { database: { status: 'error' } } });
      expect(JSON.stringify(answer)).not.toContain(name);
      expect(await ping()).toEqual([200, 'pong\n']);
    } finally {
      await admin.query(`alter database ${name} allow_connections true`);
      await admin.end();
    }
    expect(await says('okay')).toMatchObject(OKAY);
    const client = stage.client(server.url);
    const handle = await client.enqueue('sum', { a: 2, b: 2 });
    expect(await handle.result({ timeout: '20s' })).toEqual({ sum: 4 });
  });
});
