import { ROUTES } from '@drover/protocol';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type ApiBench, createApiBench, errorOf } from './api-bench.js';

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench();
});
afterAll(() => api.close());

test('a ping is answered with pong', async () => {
  const { status, text, headers } = await api.call('/api/ping');
  expect([status, text, headers['content-type']]).toEqual([200, 'pong\n', 'text/plain; charset=utf-8']);
});

test('a deep ping tells how the database and the server are', async () => {
  await expect.poll(async () => (await api.call('/api/deep_ping')).body).toMatchObject({ status: 'okay' });
  const { status, body } = await api.call('/api/deep_ping');
  expect(status).toBe(200);
  expect(ROUTES.deepPing.answer.parse(body)).toMatchObject({ checks: { database: { status: 'okay' } } });
});

describe('when the database takes no connections', () => {
  const admin = async (statement: string) => {
    const client = new pg.Client({ connectionString: inject('databaseUrl') });
    await client.connect();
    await client.query(statement);
    await client.end();
  };

  beforeAll(async () => {
    await admin(`alter database ${api.database.name} allow_connections false`);
    await admin(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${api.database.name}'`);
  });
  afterAll(() => admin(`alter database ${api.database.name} allow_connections true`));

  test('the deep ping says so without saying where the database is', async () => {
    await expect.poll(async () => (await api.call('/api/deep_ping')).status).toBe(503);
    const { body, text } = await api.call('/api/deep_ping');
    expect(body).toMatchObject({ status: 'error', checks: { database: { status: 'error' } } });
    expect(text).not.toContain(api.database.name);
    expect((await api.call('/api/ping')).status).toBe(200);
  });

  test.each(['/api/v1/jobs', '/api/v1/queues', '/api/v1/stats', '/api/v1/workers'])('%s answers 503', async (path) => {
    const answer = await api.call(path);
    expect([answer.status, errorOf(answer).code]).toEqual([503, 'database_unavailable']);
    expect(answer.headers['retry-after']).toMatch(/^[1-5]$/);
    expect(answer.text).not.toContain(api.database.name);
  });

  test('so does an add, which may be repeated', async () => {
    const answer = await api.call('/api/v1/jobs', { method: 'POST', body: { type: 'work' } });
    expect([answer.status, errorOf(answer).code]).toEqual([503, 'database_unavailable']);
    expect(answer.text).not.toContain(api.database.name);
  });
});
