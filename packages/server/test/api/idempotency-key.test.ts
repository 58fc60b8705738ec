/** A job with an idempotency key: the same key and type is the same job, whichever way it is added. */
import { newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { enqueueManyWith, enqueueWith } from '@drover/sdk/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectDatabase } from '../../src/db/database.js';
import { pruneHistory } from '../../src/lifecycle/prune.js';
import { drover } from '../cli/run-cli.js';
import { register, succeeded } from '../support/raw-worker.js';
import { type ApiBench, createApiBench, errorOf } from './api-bench.js';

let api: ApiBench;
let client: ReturnType<typeof createClient>;
beforeAll(async () => {
  api = await createApiBench({ pollMs: 50 });
  client = createClient({ url: `http://127.0.0.1:${api.port}` });
});
afterAll(async () => {
  await client.close();
  await api.close();
});

const query = (text: string, values: unknown[]) => api.database.pool.query(text, values);
const newType = () => `keyed-${newId()}`;

type Added = { id: string };
async function post(path: string, body: unknown): Promise<unknown> {
  const answer = await api.call(`/api/v1/jobs${path}`, { method: 'POST', body });
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer.body;
}

/** Every way in that does not need a running job. */
const WAYS: Record<string, (type: string, idempotencyKey: string) => Promise<string>> = {
  'POST /jobs': async (type, idempotencyKey) => ((await post('', { type, idempotencyKey })) as Added).id,
  'POST /jobs/batch': async (type, idempotencyKey) => {
    const { items } = (await post('/batch', { jobs: [{ type }, { type, idempotencyKey }] })) as { items: Added[] };
    return items[1]?.id as string;
  },
  enqueue: async (type, idempotencyKey) => (await client.enqueue(type, undefined, { idempotencyKey })).id,
  enqueueMany: async (type, idempotencyKey) => {
    const jobs = await client.enqueueMany([{ job: type }, { job: type, options: { idempotencyKey } }]);
    return jobs[1]?.id as string;
  },
  enqueueWith: async (type, idempotencyKey) => (await enqueueWith(query, type, undefined, { idempotencyKey })).id,
  enqueueManyWith: async (type, idempotencyKey) => {
    const [job] = await enqueueManyWith(query, [{ job: type, options: { idempotencyKey } }]);
    return job?.id as string;
  },
  'drover.enqueue': async (type, idempotencyKey) => {
    const { rows } = await query(`select drover.enqueue($1, 'null', $2) as id`, [type, { idempotencyKey }]);
    return rows[0].id;
  },
  'drover.enqueue_many': async (type, idempotencyKey) => {
    const jobs = JSON.stringify([{ type, idempotencyKey }]);
    return (await query('select drover.enqueue_many($1) as ids', [jobs])).rows[0].ids[0];
  },
  'drover job add': async (type, key) => {
    const args = ['job', 'add', type, '--idempotency-key', key, '--json'];
    const { stdout } = await drover(args, { env: { DROVER_URL: `http://127.0.0.1:${api.port}` } });
    return (JSON.parse(stdout) as Added).id;
  },
};

async function jobsWith(key: string): Promise<{ id: string; type: string; state: string }[]> {
  const { rows } = await query(
    `select id, type, state from drover.job where options->>'idempotencyKey' = $1
     union all select id, type, state from drover.job_history where options->>'idempotencyKey' = $1`,
    [key],
  );
  return rows;
}

test('is listed by its creation, as every other job', async () => {
  const type = newType();
  const ids: string[] = [];
  for (const idempotencyKey of ['a', undefined, 'b', undefined, 'c', 'd', undefined]) {
    ids.unshift((await client.enqueue(type, undefined, { idempotencyKey })).id);
    // the next job is not of the same millisecond
    await query('select pg_sleep(0.002)', []);
  }
  for (const limit of [1, 2, 7]) {
    const listed: string[] = [];
    for await (const { id } of client.listAll({ type, limit })) listed.push(id);
    expect(listed).toEqual(ids);
  }
});

describe('the same key and type is the same job', () => {
  test('by every way in, and the job shows its key', async () => {
    const type = newType();
    const ids: Record<string, string> = {};
    for (const [name, add] of Object.entries(WAYS)) ids[name] = await add(type, 'order-4711');
    const [id = ''] = Object.values(ids);
    expect(ids).toEqual(Object.fromEntries(Object.keys(WAYS).map((name) => [name, id])));
    expect(await jobsWith('order-4711')).toEqual([{ id, type, state: 'ready' }]);
    expect(await client.job(id).get()).toMatchObject({ id, idempotencyKey: 'order-4711' });
  });

  test('for the children of a handler, also of several parents', async () => {
    const [parentType, childType] = [newType(), newType()];
    const key = `child-${childType}`;
    await client.enqueueMany([{ job: parentType }, { job: parentType }]);
    const { worker } = await register(api.port, { types: [parentType] });
    const children = [{ type: childType, idempotencyKey: key }];
    for (let parents = 0; parents < 2; ) {
      const { jobs } = await worker.next('assign');
      worker.send({ kind: 'outcomes', items: jobs.map((grant) => succeeded(grant, { children })) });
      parents += jobs.length;
    }
    await expect.poll(async () => (await client.list({ type: parentType, state: 'succeeded' })).items.length).toBe(2);
    expect(await jobsWith(key)).toHaveLength(1);
    expect((await client.enqueue(childType, undefined, { idempotencyKey: key })).created).toBe(false);
    worker.terminate();
  });

  test('twice in one batch, and by many at once', async () => {
    const [type, key] = [newType(), newId()];
    const twice = await client.enqueueMany([
      { job: type, payload: 1, options: { idempotencyKey: key } },
      { job: type, payload: 2, options: { idempotencyKey: key } },
    ]);
    expect(twice.map(({ created }) => created)).toEqual([true, false]);
    const many = Object.values(WAYS).flatMap((add) => [add(type, `${key}-2`), add(type, `${key}-2`)]);
    expect(new Set(await Promise.all(many)).size).toBe(1);
    expect(await jobsWith(`${key}-2`)).toHaveLength(1);
  });

  test('after it has finished; once its retention is over, it is a new job', async () => {
    const [type, key] = [newType(), newId()];
    const add = () => client.enqueue(type, undefined, { idempotencyKey: key, retention: '1h' });
    const first = await add();
    await first.cancel();
    expect(await add()).toMatchObject({ id: first.id, created: false });
    for (const way of Object.values(WAYS)) await way(type, key);
    expect(await jobsWith(key)).toMatchObject([{ state: 'cancelled' }]);

    await query('update drover.job_history set keep_until = now() where id = $1', [first.id]);
    const db = connectDatabase({ url: api.database.url, poolSize: 1 });
    await pruneHistory(db.control, 86_400_000);
    await db.close();
    expect(await add()).toMatchObject({ id: first.id, created: true });
    expect(await jobsWith(key)).toMatchObject([{ state: 'ready' }]);
  });
});

test('another type with the same key is another job', async () => {
  const key = newId();
  const [first, second] = [await WAYS.enqueue?.(newType(), key), await WAYS.enqueue?.(newType(), key)];
  expect(first).not.toBe(second);
  expect(await jobsWith(key)).toHaveLength(2);
});

/** Computed with other tools: sha256sum of the type, a NUL and the key. */
const KEYED_ID = 'ff1f0fc1-9776-808d-b2c8-ba8b6dbcca35';

test('an id beside the key is refused if it is not the one of the key', async () => {
  const [type, key, id] = ['order.confirm', 'order-4711', '0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c'];
  const answer = await api.call('/api/v1/jobs', { method: 'POST', body: { type, id, idempotencyKey: key } });
  expect(answer.status).toBe(400);
  expect(errorOf(answer).message).toBe(
    `id: expected no id beside idempotencyKey, which makes it ${KEYED_ID}, got "${id}"`,
  );
});
