/** Job types whose workers promise something: the promise holds however a job is added. */
import { newId } from '@drover/protocol';
import { type Client, defineSchedule } from '@drover/sdk';
import { expect, test, vi } from 'vitest';
import { drover } from '../../packages/server/test/cli/run-cli.js';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

vi.setConfig({ testTimeout: 60_000 });

const stage = createStage();
/** As `bank.wire` is defined in programs/jobs.mjs. */
const DEFINED = { queue: 'bank', maxAttempts: 1, timeout: 5000, onLost: 'hold' };

const starts = (id: string) => stage.witness.events({ id, event: 'start' });

test('J5: a job that must not run twice keeps that however it is added, also when its worker is killed', async () => {
  const { url } = await stage.startServer();
  const client = stage.client(url);
  // it registers the types, and takes nothing from the queue of the bank
  await stage.startWorker({ name: 'clerk', url, queues: ['default'] });

  const ids = await addInEveryWay(client, url);
  for (const [way, id] of Object.entries(ids)) {
    expect({ way, ...(await client.job(id).get()) }).toMatchObject({ way, type: 'bank.wire', ...DEFINED });
  }
  // explicit options win, and where the worker is stricter, it decides
  const { id: careless } = await client.enqueue('bank.wire', {}, { onLost: 'rerun', maxAttempts: 5, timeout: '1h' });
  expect(await client.job(careless).get()).toMatchObject({ onLost: 'rerun', maxAttempts: 5, timeout: 3_600_000 });

  const listed = await drover(['types', '--url', url]);
  expect(listed.stdout).toMatch(
    /^bank\.wire +1 +queue=bank maxAttempts=1 timeout=5s onLost=hold +checked +- +\d{4}-\d\d-\d\d/m,
  );
  const shown = await drover(['types', 'show', 'bank.wire', '--url', url]);
  expect(shown.stdout).toMatch(/^workers +1\n(?:.*\n)*timeout +5s\nonLost +hold\npayload +\{.*"amount"/m);

  const banker = await stage.startWorker({ name: 'banker', url, queues: ['bank'], slots: 50 });
  const all = [...Object.values(ids), careless];
  await until('every job has started', () => all.every((id) => starts(id).length === 1));
  await stage.startWorker({ name: 'other-banker', url, queues: ['bank'], slots: 50 });
  await banker.destroy();
  for (const id of all) {
    await until(`job ${id} is held`, async () => (await client.job(id).get()).state === 'unknown');
  }

  // the other worker is at work: it runs what comes now, and none of the held jobs
  const { id: next } = await client.enqueue('bank.wire', { amount: 2 });
  await until('a later job has started', () => starts(next).length === 1);
  for (const id of all) expect(starts(id)).toHaveLength(1);
});

test('a job that another adds when it fails has the promises of its type too', async () => {
  const server = await stage.startServer();
  const client = stage.client(server.url);
  await stage.startWorker({ name: 'failures-clerk', url: server.url, queues: ['failures'] });
  await client.enqueue('permanent', {}, { onFailure: 'bank.wire', queue: 'failures' });
  const page = await until('the job that follows', async () => {
    const found = await client.list({ type: 'bank.wire', queue: 'failures' });
    return found.items.length > 0 ? found : undefined;
  });
  expect(page.items).toMatchObject([{ ...DEFINED, queue: 'failures' }]);
});

async function addInEveryWay(client: Client, url: string): Promise<Record<string, string>> {
  const payload = { amount: 100 };
  const cli = await drover(['job', 'add', 'bank.wire', JSON.stringify(payload), '--url', url, '--json']);
  expect(cli).toMatchObject({ code: 0, stderr: '' });
  const http = await fetch(`${url}/api/v1/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'bank.wire', payload }),
  });
  const one = await stage.pool.query(`select drover.enqueue('bank.wire', $1) as id`, [payload]);
  const many = await stage.pool.query('select drover.enqueue_many($1) as ids', [
    JSON.stringify([{ type: 'bank.wire', payload }]),
  ]);
  await client.schedules.put(defineSchedule({ name: 'rent', job: 'bank.wire', payload, cron: '0 0 1 1 *' }));
  const scheduled = await client.schedules.trigger('rent');
  const bulk = await client.enqueueMany('bank.wire', [payload, payload]);
  const parent = await client.enqueue('parent', { children: [1], childType: 'bank.wire' });
  await parent.result({ timeout: '20s' });
  const children = (await client.list({ type: 'bank.wire' })).items.filter(({ parentId }) => parentId === parent.id);
  const idOf = (value: unknown) => (value as { id: string }).id;
  return {
    cli: idOf(JSON.parse(cli.stdout)),
    http: idOf(await http.json()),
    sql: idOf(one.rows[0]),
    'sql, many': many.rows[0].ids[0],
    schedule: scheduled.jobId ?? '',
    bulk: bulk[0]?.id ?? '',
    child: children[0]?.id ?? newId(),
  };
}
