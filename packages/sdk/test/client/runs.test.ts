/** What a client sends to start a run and to follow it. */
import type { Run } from '@drover/protocol';
import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { type Client, createClient, defineJob, defineWorkflow } from '../../src/index.js';
import { type Answer, type Asked, type HttpPeer, startHttpPeer } from '../support/http-peer.js';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const NOW = '2030-01-01T00:00:00.000Z';
const ID = '0192c3d4-5e6f-7a8b-9c0d-1e2f3a4b5c6d';

async function clientOf(answer: (asked: Asked) => Answer): Promise<{ client: Client; server: HttpPeer }> {
  const server = await startHttpPeer(answer);
  const client = createClient({ url: server.url, token: 'secret' });
  closers.push(
    () => server.close(),
    () => client.close(),
  );
  return { client, server };
}

const shownRun = (changes: Partial<Run>): Run => ({
  ...{ id: ID, workflow: 'outer', version: 7, state: 'running', ending: null, priority: 0, error: null, parent: null },
  ...{ repeats: null, tries: 1, createdAt: NOW, finishedAt: null, expiresAt: null },
  ...changes,
});
const registered = (name: string) => ({ name, version: 7, steps: 1, registeredAt: NOW });

const work = defineJob<{ n: number }>({ type: 'work' });
const inner = defineWorkflow({ name: 'inner' }, ({ step }) => {
  step('one', work, { n: 1 });
});
const outer = defineWorkflow({ name: 'outer', input: z.object({ list: z.array(z.string()) }) }, ({ input, map }) => {
  map('all', input.list, inner, (item) => item);
});

/** Registers and starts everything. */
const accept = ({ method, path }: Asked): Answer =>
  method === 'PUT'
    ? { status: 200, body: registered(path.split('/').at(-1) as string) }
    : { status: 201, body: shownRun({}) };

it('a definition is registered once, after those that it runs, and exactly its version is started', async () => {
  const { client, server } = await clientOf(accept);
  const run = await client.start(outer, { list: ['a'] }, { priority: 3, timeout: '1h' });
  await client.start(outer, { list: [] }, { id: ID });
  const start = { workflow: 'outer', version: 7 };
  expect(server.asked).toMatchObject([
    { method: 'PUT', path: '/api/v1/workflows/inner', body: inner.definition },
    { method: 'PUT', path: '/api/v1/workflows/outer', body: outer.definition },
    { path: '/api/v1/runs', body: { ...start, id: run.id, input: { list: ['a'] }, priority: 3, timeout: '1h' } },
    { path: '/api/v1/runs', body: { ...start, id: ID, input: { list: [] } } },
  ]);
});

it('a definition that could not be registered is registered by the next start', async () => {
  let isRefused = true;
  const { client, server } = await clientOf((asked) => {
    if (!isRefused) return accept(asked);
    return { status: 403, body: { error: { code: 'forbidden', message: 'not this role' } } };
  });
  await expect(client.start(inner)).rejects.toThrow('not this role');
  isRefused = false;
  await client.start(inner);
  expect(server.asked.map(({ method }) => method)).toEqual(['PUT', 'PUT', 'POST']);
});

it('an input that does not match its schema, and an unknown option, are refused before anything is sent', async () => {
  const { client, server } = await clientOf(accept);
  await expect(client.start(outer, { list: 5 } as never)).rejects.toThrow('input.list: ');
  await expect(client.start('outer', null, { prioriti: 1 } as never)).rejects.toThrow('did you mean "priority"?');
  expect(server.asked).toEqual([]);
});

it('a start by name leaves the version to the server', async () => {
  const { client, server } = await clientOf(accept);
  const { id } = await client.start('outer', { any: 'thing' });
  expect(server.asked.map(({ body }) => body)).toEqual([{ workflow: 'outer', id, input: { any: 'thing' } }]);
});

it('a wait asks until the run has ended, and then gives its output or throws how it ended', async () => {
  const answers: object[] = [
    shownRun({}),
    shownRun({}),
    { ...shownRun({ state: 'succeeded' }), output: { total: 1 } },
    shownRun({ state: 'failed', error: { step: 'one', error: { name: 'Error', message: 'out of order' } } }),
    shownRun({ state: 'cancelled' }),
  ];
  const { client, server } = await clientOf(() => ({
    status: 200,
    body: { input: null, output: null, steps: [], ...answers.shift() },
  }));
  const run = client.run(outer, ID);
  expect(await run.result()).toEqual({ total: 1 });
  expect(server.asked).toHaveLength(3);
  await expect(run.result()).rejects.toMatchObject({
    ...{ name: 'RunFailedError', message: `run ${ID} failed at step one: out of order`, id: ID },
    failure: { step: 'one' },
  });
  await expect(run.result()).rejects.toMatchObject({ name: 'RunCancelledError', id: ID });
});
