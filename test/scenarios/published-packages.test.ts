/**
 * Published packages obey no failpoint and no test switch: only the tests' preload, which is in no package, brings them in.
 * The same packed server with that preload shows that each check here would notice.
 */
import { createClient } from '@drover/sdk';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PackedPackages, unpackPackages } from '../support/packed-packages.js';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { environmentOf } from '../support/test-points/environment.js';
import { until } from '../support/until.js';

const TEST_MS = 60_000;
const FAILPOINT = 'insert.committed:1';
/** So long that no reconciler repairs what a test has changed by hand. */
const FLAGS = { beat: '10s', lease: '60s' };

const stage = createStage();
let packed: PackedPackages;

beforeAll(() => {
  packed = unpackPackages();
});
afterAll(() => packed.remove());

const startPacked = (env: Record<string, string>) => stage.startServer({ program: packed.cli, env, flags: FLAGS });

/** Whether the server lets a worker finish a job whose fence has grown since the worker got it. */
async function acceptsOldGrant(server: ServerProcess, queue: string): Promise<boolean> {
  const worker = await stage.startWorker({ name: queue, url: server.url, queues: [queue] });
  const client = stage.client(server.url);
  const { id } = await client.enqueue('hold', { gate: queue }, { queue });
  const isWitnessed = (event: 'start' | 'end') => () => stage.witness.events({ id, event }).length > 0;
  await until('the job has started', isWitnessed('start'));
  const { rows } = await stage.pool.query('update drover.job set fence = fence + 1 where id = $1 returning fence', [
    id,
  ]);
  worker.open(queue);
  await until('the job has ended', isWitnessed('end'));
  // a worker reports in order: when the result of a later job counts, that of this one was dealt with
  const later = await client.enqueue('sum', { a: 1, b: 2 }, { queue });
  await later.result();
  const accepted = 'select from drover.job_history where id = $1 and fence = $2';
  return (await stage.pool.query(accepted, [id, rows[0].fence])).rowCount === 1;
}

it('no published file names a variable of the tests', () => {
  const files = packed.files();
  expect(files.map(({ path }) => path)).toContain(packed.cli);
  const found = files.filter(({ text }) => /DROVER_TEST_\w|FAILPOINT\b/.test(text));
  expect(found.map(({ path }) => path)).toEqual([]);
});

it(
  'a published server passes a failpoint unharmed and keeps its fences, whatever the variables say',
  async () => {
    const server = await startPacked({
      DROVER_TEST_FAILPOINT: FAILPOINT,
      DROVER_TEST_WITHOUT: 'fencing,beacon,self-stop',
    });
    expect(await acceptsOldGrant(server, 'published')).toBe(false);
    expect(server.hasExited).toBe(false);
    await server.destroy();
  },
  TEST_MS,
);

it(
  'with the preload it dies at the failpoint',
  async () => {
    const server = await startPacked(environmentOf({ failpoint: FAILPOINT }));
    const client = createClient({ url: server.url, retries: 0 });
    await expect(client.enqueue('sum', { a: 1, b: 2 })).rejects.toThrow();
    expect(await server.exited).toBe('SIGKILL');
    await client.close();
  },
  TEST_MS,
);

it(
  'with the preload and without fencing it accepts the result of an old grant',
  async () => {
    const server = await startPacked(environmentOf({ without: ['fencing'] }));
    expect(await acceptsOldGrant(server, 'unfenced')).toBe(true);
    await server.destroy();
  },
  TEST_MS,
);
