import { createClient } from '@drover/sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allows, likePatterns, scopeOf } from '../../src/access/scope.js';
import { type ApiBench, createApiBench, errorOf, TOKENS, tokenOf } from '../api/api-bench.js';
import { drover } from '../cli/run-cli.js';
import { connect, helloOf } from '../support/raw-worker.js';

let api: ApiBench;
let secrets: Record<'client' | 'enqueue' | 'worker' | 'types', string>;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS });
  const client = createClient({ url: api.server.address, token: tokenOf('admin') });
  const limited = { queues: ['mail.*', 'mail'], types: ['send_*'] };
  const made = await Promise.all([
    client.tokens.create({ name: 'shop', role: 'client', ...limited }),
    client.tokens.create({ name: 'adder', role: 'enqueue', ...limited }),
    client.tokens.create({ name: 'mailer', role: 'worker', ...limited }),
    client.tokens.create({ name: 'typed', role: 'viewer', types: ['send_*'] }),
  ]);
  const [shop, adder, mailer, typed] = made.map(({ secret }) => secret) as [string, string, string, string];
  secrets = { client: shop, enqueue: adder, worker: mailer, types: typed };
  await client.close();
});
afterAll(() => api.close());

const post = (path: string, body: unknown, token = secrets.client) => api.call(path, { method: 'POST', body, token });

test.each([
  ['mail.*', 'mail.out', true],
  ['mail.*', 'mail', false],
  ['mail.*', 'mailxout', false],
  ['mail.*', 'xmail.out', false],
  ['*', 'anything:at/all@x', true],
  ['*.out', 'mail.out', true],
  ['a*b*c', 'a.b.c', true],
  ['a_b', 'axb', false],
])('the pattern %s matches %s: %s, in the server and in SQL', async (pattern, name, expected) => {
  const scope = scopeOf([pattern], null);
  if (!scope) throw new Error('no scope');
  expect(allows(scope, name, 'any')).toBe(expected);
  const { rows } = await api.database.pool.query('select $1 like any($2) as matches', [
    name,
    likePatterns(scope.queues),
  ]);
  expect(rows).toEqual([{ matches: expected }]);
});

describe('adding outside of the scope', () => {
  test.each([
    [
      'a queue',
      { type: 'send_mail', queue: 'billing' },
      'jobs[1].queue: "shop" is limited to the queues mail.*, mail, got billing',
    ],
    [
      'the default queue',
      { type: 'send_mail' },
      'jobs[1].queue: "shop" is limited to the queues mail.*, mail, got default',
    ],
    ['a type', { type: 'charge', queue: 'mail' }, 'jobs[1].type: "shop" is limited to the types send_*, got charge'],
    [
      'the job of its failure',
      { type: 'send_mail', queue: 'mail', onFailure: 'charge' },
      'jobs[1].onFailure: "shop" is limited to the types send_*, got charge',
    ],
  ])('refuses the whole batch and names the job: %s', async (_what, job, message) => {
    const good = { type: 'send_mail', queue: 'mail', tags: [message.slice(0, 20)] };
    const answer = await post('/api/v1/jobs/batch', { jobs: [good, job] });
    expect([answer.status, errorOf(answer).message]).toEqual([403, message]);
    const found = await api.call(`/api/v1/jobs?tag=${encodeURIComponent(good.tags[0] as string)}`, {
      token: secrets.client,
    });
    expect(found.body).toMatchObject({ items: [] });
  });

  test('names the field of a single job and of a schedule', async () => {
    expect(errorOf(await post('/api/v1/jobs', { type: 'charge', queue: 'mail' })).message).toMatch(/^type: "shop"/);
    const schedule = { every: '1d', job: { type: 'send_mail', queue: 'billing' } };
    const answer = await api.call('/api/v1/schedules/one', { method: 'PUT', body: schedule, token: secrets.client });
    expect([answer.status, errorOf(answer).message]).toEqual([
      403,
      'job.queue: "shop" is limited to the queues mail.*, mail, got billing',
    ]);
  });
});

test('a schedule of others is neither replaced nor deleted', async () => {
  const foreign = { every: '1d', job: { type: 'charge', queue: 'billing' } };
  await api.call('/api/v1/schedules/foreign', { method: 'PUT', body: foreign, token: tokenOf('admin') });
  const own = { every: '1d', job: { type: 'send_mail', queue: 'mail' } };
  for (const request of [{ method: 'PUT', body: own }, { method: 'DELETE' }]) {
    const answer = await api.call('/api/v1/schedules/foreign', { ...request, token: secrets.client });
    expect([answer.status, errorOf(answer).message]).toEqual([
      403,
      'schedule foreign exists and is outside of the queues and types of "shop"',
    ]);
  }
});

test('lists have only what is in the scope, page by page, by queues and by types', async () => {
  for (const queue of ['mail', 'mail.out', 'billing']) {
    for (const type of ['send_mail', 'send_bill', 'charge']) {
      await post('/api/v1/jobs', { type, queue, tags: ['listed'] }, tokenOf('client'));
    }
  }
  const lanesOf = async (token: string) => {
    const lanes: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor && `&cursor=${cursor}`;
      const { body } = await api.call(`/api/v1/jobs?tag=listed&limit=1${more}`, { token });
      const page = body as { items: { queue: string; type: string }[]; nextCursor: string | null };
      lanes.push(...page.items.map(({ queue, type }) => `${queue} ${type}`));
      cursor = page.nextCursor;
    }
    return lanes.sort();
  };
  expect(await lanesOf(secrets.client)).toEqual([
    ...['mail send_bill', 'mail send_mail', 'mail.out send_bill', 'mail.out send_mail'],
  ]);
  expect(await lanesOf(secrets.types)).toHaveLength(6);
  const filtered = await api.call('/api/v1/jobs?queue=billing', { token: secrets.client });
  expect(filtered.body).toMatchObject({ items: [] });
});

test('the role enqueue adds jobs and reads those that it can name, nothing else', async () => {
  const { body } = await post('/api/v1/jobs', { type: 'send_mail', queue: 'mail' }, secrets.enqueue);
  const { id } = body as { id: string };
  const statusOf = async (path: string, method = 'GET') =>
    (await api.call(path, { method, token: secrets.enqueue })).status;
  expect(await statusOf(`/api/v1/jobs/${id}`)).toBe(200);
  expect(await statusOf(`/api/v1/jobs/${id}/result`)).toBe(200);
  expect(await statusOf('/api/v1/jobs')).toBe(403);
  expect(await statusOf(`/api/v1/jobs/${id}/cancel`, 'POST')).toBe(403);
});

describe('a worker with a scope', () => {
  const refusalOf = async (hello: object) => {
    const worker = await connect({ port: api.port, token: secrets.worker });
    worker.send({ ...helloOf(), ...hello });
    return (await worker.next('refused')).message;
  };

  test('must name queues and types in it', async () => {
    expect(await refusalOf({ types: ['send_mail', 'charge'], queues: ['mail'] })).toBe(
      'types: "mailer" is limited to the types send_*, got charge',
    );
    const definitions = [{ type: 'send_mail', defaults: { onFailure: 'charge' } }];
    expect(await refusalOf({ types: ['send_mail'], queues: ['mail'], definitions })).toBe(
      'definitions[0].defaults.onFailure: "mailer" is limited to the types send_*, got charge',
    );
    expect(await refusalOf({ types: ['send_mail'] })).toBe(
      'queues: expected a list, because "mailer" is limited to the queues mail.*, mail',
    );
    expect(await refusalOf({ types: ['send_mail'], queues: ['mail', 'billing'] })).toBe(
      'queues: "mailer" is limited to the queues mail.*, mail, got billing',
    );
  });

  test('adds no children outside of it: the job fails with the reason', async () => {
    const worker = await connect({ port: api.port, token: secrets.worker });
    worker.send({ ...helloOf(), types: ['send_parent'], queues: ['mail'], window: 10 });
    await worker.next('welcome');
    await post('/api/v1/jobs', { type: 'send_parent', queue: 'mail', maxAttempts: 1 });
    const { jobs } = await worker.next('assign');
    const [job] = jobs;
    if (!job) throw new Error('no job');
    const children = [{ type: 'charge', queue: 'mail' }];
    worker.send({ kind: 'outcomes', items: [{ kind: 'succeeded', id: job.id, fence: job.fence, runMs: 1, children }] });
    await worker.next('ack');
    const { body } = await api.call(`/api/v1/jobs/${job.id}`, { token: secrets.client });
    expect(body).toMatchObject({
      state: 'failed',
      error: {
        code: 'forbidden',
        message: 'a child job was refused: children[0].type: "mailer" is limited to the types send_*, got charge',
      },
    });
    worker.terminate();
  });
});

describe('jobs that are added by name belong where the definition of their type says', () => {
  const offer = async (definition: { type: string; defaults: object; payloadSchema?: string }, token: string) => {
    const worker = await connect({ port: api.port, token });
    worker.send({ ...helloOf(), types: [definition.type], queues: ['mail'], window: 10, definitions: [definition] });
    return worker;
  };

  test('a token with a scope reaches no other queue by them, and learns nothing of other types', async () => {
    const schema = JSON.stringify({ type: 'object', required: ['secret'] });
    for (const definition of [
      { type: 'send_wire', defaults: { queue: 'billing' } },
      { type: 'bend_card', defaults: {}, payloadSchema: schema },
    ]) {
      const worker = await offer(definition, tokenOf('worker'));
      await worker.next('welcome');
      worker.terminate();
    }
    const outside = '"shop" is limited to the queues mail.*, mail, got billing';
    expect(errorOf(await post('/api/v1/jobs', { type: 'send_wire' })).message).toBe(`queue: ${outside}`);
    const wire = { every: '1d', job: { type: 'send_wire' } };
    const put = (token: string) => api.call('/api/v1/schedules/wire', { method: 'PUT', body: wire, token });
    expect(errorOf(await put(secrets.client)).message).toBe(`job.queue: ${outside}`);
    expect((await put(tokenOf('admin'))).status).toBe(200);
    const { status } = await api.call('/api/v1/schedules/wire/trigger', { method: 'POST', token: secrets.client });
    expect(status).toBe(404);
    const listed = await api.call('/api/v1/schedules', { token: secrets.client });
    expect(JSON.stringify(listed.body)).not.toContain('send_wire');

    // neither by an error of its schema nor by a suggestion
    const unknown = await post('/api/v1/jobs', { type: 'bend_card', queue: 'mail' });
    expect([unknown.status, errorOf(unknown).message]).toEqual([
      403,
      expect.stringMatching(/^type: "shop" is limited/),
    ]);
    const near = await post('/api/v1/jobs', { type: 'send_card', queue: 'mail' });
    expect(near.body).toMatchObject({ warnings: [{ message: expect.not.stringContaining('bend_card') }] });
  });

  test('a worker with a scope adds no such child', async () => {
    const worker = await offer({ type: 'send_parent', defaults: {} }, secrets.worker);
    await worker.next('welcome');
    await post('/api/v1/jobs', { type: 'send_parent', queue: 'mail', maxAttempts: 1 });
    const [job] = (await worker.next('assign')).jobs;
    if (!job) throw new Error('no job');
    const children = [{ type: 'send_wire' }];
    worker.send({ kind: 'outcomes', items: [{ kind: 'succeeded', id: job.id, fence: job.fence, runMs: 1, children }] });
    await worker.next('ack');
    const { body } = await api.call(`/api/v1/jobs/${job.id}`, { token: secrets.client });
    expect(body).toMatchObject({
      error: { message: expect.stringContaining('children[0].queue: "mailer" is limited to the queues mail.*, mail') },
    });
    worker.terminate();
  });

  test.each([
    ['queue', { queue: 'billing' }, 'queues mail.*, mail, got billing'],
    ['onFailure', { onFailure: 'charge' }, 'types send_*, got charge'],
  ])('a worker with a scope defines none outside of it: %s', async (field, defaults, limit) => {
    const worker = await offer({ type: 'send_mail', defaults }, secrets.worker);
    expect((await worker.next('refused')).message).toBe(
      `definitions[0].defaults.${field}: "mailer" is limited to the ${limit}`,
    );
  });
});

test('a scope that could not hold is refused when the token is created', async () => {
  const refusal = async (...flags: string[]) =>
    (await drover(['token', 'create', 'bad', ...flags, '--url', 'http://127.0.0.1:1'])).stderr.split('\n')[0];
  expect(await refusal('--role', 'admin', '--queues', 'mail')).toContain(
    'queues: expected none, because a token with the role admin may do everything',
  );
  expect(await refusal('--role', 'admin', '--no-payloads')).toContain(
    'payloads: expected true, because the role admin may do everything',
  );
  expect(await refusal('--role', 'worker', '--no-payloads')).toContain(
    'payloads: expected true, because workers need payloads',
  );
  expect(await refusal('--role', 'client', '--types', 'send mail')).toContain(
    'types[0]: expected a name in which * stands for any characters, such as "mail.*", got "send mail"',
  );
});
