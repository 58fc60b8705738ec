/** Bad input of every kind on the worker stream: a clear refusal, and nothing else changes. */
import { type Grant, LIMITS, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiBench, createApiBench, TOKENS, tokenOf } from '../../api/api-bench.js';
import { connect, helloOf, register, succeeded, UpgradeRefused } from '../../support/raw-worker.js';

let bench: ApiBench;
beforeAll(async () => {
  bench = await createApiBench();
});
afterAll(() => bench.close());

/** Adds a job that only the given worker takes, and gives its grant. */
async function granted() {
  const type = `only-${newId()}`;
  const { worker, hello } = await register(bench.port, { types: [type] });
  await bench.call('/api/v1/jobs', { method: 'POST', body: { type, payload: 1 } });
  const [job] = (await worker.next('assign')).jobs;
  return { worker, hello, grant: { id: job?.id ?? '', fence: job?.fence ?? 0 } };
}

async function rowOf(id: string): Promise<Record<string, unknown>> {
  const { rows } = await bench.database.pool.query(
    `select to_jsonb(j) as row from drover.job j where id = $1
     union all select to_jsonb(h) from drover.job_history h where id = $1`,
    [id],
  );
  expect(rows).toHaveLength(1);
  return rows[0].row;
}

async function sessionCount(): Promise<number> {
  const { rows } = await bench.database.pool.query('select count(*)::int as count from drover.session');
  return rows[0].count;
}

const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;

describe('before hello', () => {
  const texts: [string, string | Buffer, string, RegExp][] = [
    ['an empty frame', '', 'invalid_json', /JSON/],
    ['half a frame', '{"kind":"hello"', 'invalid_json', /JSON/],
    ['something that is not JSON', 'hello, server', 'invalid_json', /JSON/],
    ['bytes', Buffer.from('{"kind":"bye"}'), 'invalid_request', /JSON text/],
    ['null', 'null', 'invalid_request', /expected an object/],
    ['a number', '5', 'invalid_request', /expected an object/],
    ['a list', '[]', 'invalid_request', /expected an object/],
    ['a deep nest', deep, 'invalid_request', /expected an object/],
    [
      'a deep nest in an outcome',
      `{"kind":"outcomes","items":[${deep}]}`,
      'invalid_request',
      /kind|expected an object/,
    ],
    ['no kind', '{}', 'invalid_request', /kind/],
    ['an unknown kind', '{"kind":"howdy"}', 'invalid_request', /kind/],
    ['an offer', '{"kind":"offer","window":5}', 'invalid_request', /expected hello first, got offer/],
    ['outcomes', '{"kind":"outcomes","items":[]}', 'invalid_request', /expected hello first, got outcomes/],
    [
      'a beat',
      '{"kind":"beat","beat":1,"running":0,"received":0}',
      'invalid_request',
      /expected hello first, got beat/,
    ],
    ['a bye', '{"kind":"bye"}', 'invalid_request', /expected hello first, got bye/],
  ];
  test.each(texts)('%s is refused', async (_, frame, code, message) => {
    const before = await sessionCount();
    const worker = await connect({ port: bench.port });
    worker.send(frame);
    const refused = await worker.next('refused');
    expect(refused).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(await worker.closed).toBe(1008);
    expect(await sessionCount()).toBe(before);
  });

  test('a frame over the limit ends the connection', async () => {
    const worker = await connect({ port: bench.port });
    worker.send(Buffer.alloc(LIMITS.frameBytes + 1, ' ').toString());
    expect(await worker.closed).toBe(1009);
  });
});

describe('a hello', () => {
  test('that holds jobs of another cluster is refused and opens no session; every welcome says which cluster this is', async () => {
    const { welcome } = await register(bench.port);
    expect((await register(bench.port, { clusterId: welcome.clusterId })).welcome.clusterId).toBe(welcome.clusterId);
    const before = await sessionCount();
    const worker = await connect({ port: bench.port });
    const stranger = newId();
    worker.send(helloOf({ clusterId: stranger, holds: [{ id: newId(), fence: 1 }] }));
    const { code, message } = await worker.next('refused');
    expect(code).toBe('wrong_cluster');
    expect(message).toContain(stranger);
    expect(await sessionCount()).toBe(before);
  });

  const wrong: [string, object, string, RegExp][] = [
    ['another version', { version: 2 }, 'not_acceptable', /version: this server speaks 1, got 2/],
    ['a version that is a string', { version: '1' }, 'invalid_request', /version/],
    [
      'a session that is not a UUID',
      { sessionId: 'mine' },
      'invalid_request',
      /sessionId: expected a UUID, got "mine"/,
    ],
    ['no name', { name: '' }, 'invalid_request', /name/],
    ['a name with a space', { name: 'a b' }, 'invalid_request', /name.*got "a b"/],
    ['a long host', { host: 'h'.repeat(1000) }, 'invalid_request', /host/],
    ['a host with a NUL', { host: 'a\u0000b' }, 'invalid_request', /host|0x00/],
    ['a negative pid', { pid: -1 }, 'invalid_request', /pid/],
    ['a pid that no system has', { pid: 2 ** 40 }, 'invalid_request', /pid|range/],
    ['no types', { types: [] }, 'invalid_request', /types/],
    ['types that are no list', { types: 'work' }, 'invalid_request', /types/],
    ['a type that is no name', { types: ['work', 'a b'] }, 'invalid_request', /types\[1\].*got "a b"/],
    ['too many types', { types: Array.from({ length: 1001 }, (_, n) => `t${n}`) }, 'invalid_request', /types/],
    ['no queues', { queues: [] }, 'invalid_request', /queues/],
    ['no slots', { slots: 0 }, 'invalid_request', /slots.*got 0/],
    ['too many slots', { slots: 10_001 }, 'invalid_request', /slots.*got 10001/],
    ['slots that are a text', { slots: '5' }, 'invalid_request', /slots.*got "5"/],
    ['a negative window', { window: -1 }, 'invalid_request', /window.*got -1/],
    ['half a window', { window: 0.5 }, 'invalid_request', /window.*got 0.5/],
    ['holds that are no list', { holds: {} }, 'invalid_request', /holds/],
    ['a hold without a fence', { holds: [{ id: newId() }] }, 'invalid_request', /holds\[0\]\.fence/],
    ['a hold with fence 0', { holds: [{ id: newId(), fence: 0 }] }, 'invalid_request', /holds\[0\]\.fence.*got 0/],
  ];
  test.each(wrong)('with %s is refused', async (_, given, code, message) => {
    const before = await sessionCount();
    const worker = await connect({ port: bench.port });
    worker.send({ ...helloOf(), ...given });
    expect(await worker.next('refused')).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(await worker.closed).toBe(1008);
    expect(await sessionCount()).toBe(before);
  });

  test('is said once: a second one is refused, also while the first is still looked at', async () => {
    const { worker, hello } = await register(bench.port);
    worker.send(hello);
    expect((await worker.next('refused')).message).toBe('kind: hello was said already');
    const hasty = await connect({ port: bench.port });
    hasty.send(helloOf());
    hasty.send(helloOf());
    expect((await hasty.next('refused')).message).toMatch(/hello/);
    expect(await hasty.closed).toBe(1008);
  });
});

describe('after hello', () => {
  const id = newId();
  const wrong: [string, string | object | Buffer, string, RegExp][] = [
    ['something that is not JSON', '{', 'invalid_json', /JSON/],
    ['bytes', Buffer.from([1, 2, 3]), 'invalid_request', /JSON text/],
    ['an unknown kind', { kind: 'give me more' }, 'invalid_request', /kind/],
    ['a negative window', { kind: 'offer', window: -5 }, 'invalid_request', /window.*got -5/],
    ['a window that is a text', { kind: 'offer', window: '5' }, 'invalid_request', /window.*got "5"/],
    ['no window', { kind: 'offer' }, 'invalid_request', /window/],
    ['outcomes that are no list', { kind: 'outcomes', items: {} }, 'invalid_request', /items/],
    ['a frame of outcomes with half a number', { kind: 'outcomes', items: [], batch: 1.5 }, 'invalid_request', /batch/],
    [
      'an endless run time',
      `{"kind":"outcomes","items":[{"kind":"succeeded","id":"${id}","fence":1,"runMs":1e999}]}`,
      'invalid_request',
      /runMs/,
    ],
    ['an outcome that is null', { kind: 'outcomes', items: [null] }, 'invalid_request', /expected an object|kind/],
    ['an outcome of no kind', { kind: 'outcomes', items: [{ id, fence: 1 }] }, 'invalid_request', /kind/],
    [
      'an outcome of another kind',
      { kind: 'outcomes', items: [{ id, fence: 1, kind: 'won' }] },
      'invalid_request',
      /kind/,
    ],
    [
      'an outcome without an id',
      { kind: 'outcomes', items: [succeeded({ id: 'x', fence: 1 })] },
      'invalid_request',
      /id: expected a UUID, got "x"/,
    ],
    [
      'an outcome with half a fence',
      { kind: 'outcomes', items: [succeeded({ id, fence: 0.5 })] },
      'invalid_request',
      /fence.*got 0.5/,
    ],
    [
      'an outcome that took less than no time',
      { kind: 'outcomes', items: [succeeded({ id, fence: 1 }, { runMs: -1 })] },
      'invalid_request',
      /runMs.*got -1/,
    ],
    [
      'a result that is not a string',
      { kind: 'outcomes', items: [succeeded({ id, fence: 1 }, { result: { a: 1 } })] },
      'invalid_request',
      /result/,
    ],
    [
      'children that are no jobs',
      { kind: 'outcomes', items: [succeeded({ id, fence: 1 }, { children: [{ payload: 1 }] })] },
      'invalid_request',
      /children\[0\]\.type/,
    ],
    [
      'a failure without an error',
      { kind: 'outcomes', items: [{ kind: 'failed', id, fence: 1, runMs: 1 }] },
      'invalid_request',
      /error/,
    ],
    [
      'a snooze into the past',
      { kind: 'outcomes', items: [{ kind: 'snoozed', id, fence: 1, runMs: 1, inMs: -1 }] },
      'invalid_request',
      /inMs.*got -1/,
    ],
    [
      'progress that is not a string',
      { kind: 'progress', items: [{ id, fence: 1, value: 5 }] },
      'invalid_request',
      /value/,
    ],
    [
      'too much progress',
      { kind: 'progress', items: [{ id, fence: 1, value: 'x'.repeat(LIMITS.progressBytes + 1) }] },
      'invalid_request',
      /value/,
    ],
    ['a beat without a number', { kind: 'beat', running: 0 }, 'invalid_request', /beat/],
  ];
  test.each(wrong)(
    '%s is refused, and the job that the worker holds stays its own',
    async (_, frame, code, message) => {
      const { worker, hello, grant } = await granted();
      const before = await rowOf(grant.id);
      worker.send(frame);
      expect(await worker.next('refused')).toMatchObject({ code, message: expect.stringMatching(message) });
      expect(await worker.closed).toBe(1008);
      expect(await rowOf(grant.id)).toEqual(before);
      const again = await register(bench.port, { ...hello, holds: [grant] });
      expect(again.welcome.dropped).toEqual([]);
      again.worker.send({ kind: 'outcomes', items: [succeeded(grant)] });
      expect((await again.worker.next('ack')).items).toEqual([grant]);
      expect(await rowOf(grant.id)).toMatchObject({ state: 'succeeded', attempt: 1 });
      again.worker.terminate();
    },
  );

  test('a worker that was refused is given nothing more, even if it does not go', async () => {
    const type = `only-${newId()}`;
    const { worker: hanging } = await register(bench.port, { types: [type], window: 10 });
    const { worker: good } = await register(bench.port, { types: [type], window: 1 });
    hanging.pause();
    hanging.send('{');
    good.send({ kind: 'beat', beat: 1, running: 0, received: 0 });
    await good.next('beat');
    await bench.call('/api/v1/jobs', { method: 'POST', body: { type } });
    expect((await good.next('assign')).jobs).toHaveLength(1);
    hanging.terminate();
    good.terminate();
  });
});

describe('an outcome', () => {
  const error = { name: 'Error', message: 'no luck' };
  const kinds = (grant: Grant) => [
    succeeded(grant),
    succeeded(grant, { children: [{ type: 'child' }] }),
    { kind: 'failed', ...grant, runMs: 1, error },
    { kind: 'failed', ...grant, runMs: 1, error, retryInMs: 5 },
    { kind: 'snoozed', ...grant, runMs: 1, inMs: 5 },
    { kind: 'cancelled', ...grant, runMs: 1 },
    { kind: 'released', ...grant },
  ];

  test('of a job that is not the worker’s, or at another fence, changes nothing', async () => {
    const { worker, grant } = await granted();
    const { worker: stranger } = await register(bench.port);
    const before = await rowOf(grant.id);
    const expectStale = async (from: typeof worker, wrong: Grant) => {
      const items = kinds(wrong);
      from.send({ kind: 'outcomes', items });
      const ack = await from.next('ack');
      expect(ack).toEqual({ kind: 'ack', items: [], stale: items.map(() => wrong) });
    };
    await expectStale(stranger, grant);
    await expectStale(worker, { id: grant.id, fence: grant.fence + 1 });
    await expectStale(worker, { id: newId(), fence: 1 });
    expect(await rowOf(grant.id)).toEqual(before);
    const { rows } = await bench.database.pool.query('select from drover.job where parent_id = $1', [grant.id]);
    expect(rows).toEqual([]);
  });

  test('in a frame with a number is acknowledged by it, after the commit and whether it counted or not', async () => {
    const { worker, grant } = await granted();
    worker.send({ kind: 'outcomes', items: [succeeded({ id: newId(), fence: 1 }), succeeded(grant)], batch: 7 });
    expect(await worker.next('ack')).toEqual({ kind: 'ack', items: [], stale: [], batch: 7 });
    expect(await rowOf(grant.id)).toMatchObject({ state: 'succeeded' });
    worker.send({ kind: 'outcomes', items: [succeeded(grant)], batch: 8 });
    expect(await worker.next('ack')).toEqual({ kind: 'ack', items: [], stale: [], batch: 8 });
    expect(await rowOf(grant.id)).toMatchObject({ state: 'succeeded' });
  });

  test('of an older grant changes nothing', async () => {
    const { worker, grant: old } = await granted();
    worker.send({ kind: 'outcomes', items: [{ kind: 'released', ...old }] });
    await worker.next('ack');
    const [job] = (await worker.next('assign')).jobs;
    expect(job).toMatchObject({ id: old.id, fence: old.fence + 1, attempt: 1 });
    const before = await rowOf(old.id);
    worker.send({ kind: 'outcomes', items: kinds(old) });
    expect((await worker.next('ack')).items).toEqual([]);
    expect(await rowOf(old.id)).toEqual(before);
  });

  test.each(kinds({ id: '', fence: 0 }).map((item, index) => [item.kind, index]))(
    'J2: %s (%#) that comes twice counts once',
    async (_, index) => {
      const { worker, grant } = await granted();
      const item = kinds(grant)[index as number] as object;
      // a job that goes back to the queue must stay there to be looked at
      worker.send({ kind: 'drain' });
      worker.send({ kind: 'outcomes', items: [item] });
      worker.send({ kind: 'outcomes', items: [item] });
      expect((await worker.next('ack')).items).toEqual([grant]);
      const before = await rowOf(grant.id);
      worker.send({ kind: 'outcomes', items: [item, item] });
      let ack = await worker.next('ack');
      // while the first is written it is passed over, and else it is stale: either way it need not be sent again
      if (ack.stale.length === 1) ack = await worker.next('ack');
      expect(ack).toMatchObject({ items: [], stale: [grant, grant] });
      expect({ ...(await rowOf(grant.id)), state: '', order_key: 0 }).toEqual({ ...before, state: '', order_key: 0 });
      const { rows } = await bench.database.pool.query(
        'select id from drover.job where parent_id = $1 union all select id from drover.job_history where parent_id = $1',
        [grant.id],
      );
      expect(rows).toHaveLength(index === 1 ? 1 : 0);
    },
  );

  test('that contradicts another in the same frame ends the job once', async () => {
    const { worker, grant } = await granted();
    worker.send({ kind: 'outcomes', items: [kinds(grant)[2], kinds(grant)[0], kinds(grant)[5], kinds(grant)[0]] });
    await worker.next('ack');
    expect(await rowOf(grant.id)).toMatchObject({ state: 'succeeded' });
  });

  test.each([
    ['a result that is not JSON', (grant: Grant) => succeeded(grant, { result: '{' })],
    ['a time no interval can hold', (grant: Grant) => succeeded(grant, { runMs: 1e300 })],
    ['a snooze no interval can hold', (grant: Grant) => ({ kind: 'snoozed', ...grant, runMs: 1, inMs: 1e300 })],
    [
      'a retry no interval can hold',
      (grant: Grant) => ({ kind: 'failed', ...grant, runMs: 1, retryInMs: 1e300, error }),
    ],
  ])('with %s fails its job alone', async (_, outcomeOf) => {
    const type = `only-${newId()}`;
    const { worker } = await register(bench.port, { types: [type] });
    await bench.call('/api/v1/jobs/batch', { method: 'POST', body: { jobs: [{ type }, { type }, { type }] } });
    const grants: Grant[] = [];
    while (grants.length < 3)
      grants.push(...(await worker.next('assign')).jobs.map(({ id, fence }) => ({ id, fence })));
    const [first, bad, last] = grants as [Grant, Grant, Grant];
    worker.send({ kind: 'outcomes', items: [succeeded(first), outcomeOf(bad), succeeded(last)] });
    await worker.next('ack');
    for (const { id } of [first, last]) expect((await rowOf(id)).state).toBe('succeeded');
    expect(await rowOf(bad.id)).toMatchObject({ state: 'failed', error: { code: 'outcome_refused' } });
    worker.terminate();
  });

  test('may have a NUL and half a surrogate pair in its error, which is cut to its limit', async () => {
    const { worker, grant } = await granted();
    const message = `\u0000\ud800${'x'.repeat(LIMITS.errorMessageLength)}`;
    worker.send({ kind: 'outcomes', items: [{ kind: 'failed', ...grant, runMs: 1, error: { name: 'E', message } }] });
    expect((await worker.next('ack')).items).toEqual([grant]);
    const { body } = await bench.call(`/api/v1/jobs/${grant.id}`);
    expect(body).toMatchObject({ state: 'failed', error: { name: 'E' } });
  });
});

describe('progress', () => {
  test('of a job that is not the worker’s changes nothing', async () => {
    const { worker, grant } = await granted();
    const { worker: stranger } = await register(bench.port);
    stranger.send({ kind: 'progress', items: [{ ...grant, value: '"stolen"' }] });
    worker.send({ kind: 'progress', items: [{ id: grant.id, fence: grant.fence + 1, value: '"old"' }] });
    stranger.send({ kind: 'beat', beat: 1, running: 0, received: 0 });
    await stranger.next('beat');
    worker.send({ kind: 'outcomes', items: [succeeded(grant)] });
    await worker.next('ack');
    expect(await rowOf(grant.id)).toMatchObject({ state: 'succeeded', progress: null });
  });

  test('that is not JSON does no harm', async () => {
    const { worker, grant } = await granted();
    worker.send({ kind: 'progress', items: [{ ...grant, value: '{' }] });
    worker.send({ kind: 'outcomes', items: [succeeded(grant)] });
    expect((await worker.next('ack')).items).toEqual([grant]);
  });
});

describe('an upgrade', () => {
  test.each([
    '/api/v1/worker-stream/',
    '/api/v1/worker-streams',
    '/api/v1/worker%2Dstream',
    '/API/V1/WORKER-STREAM',
    '/api/v2/worker-stream',
    '/api/v1/jobs',
    '/',
    '//',
  ])('at %s is answered with not_found', async (path) => {
    const refused = connect({ port: bench.port, path });
    await expect(refused).rejects.toThrow(UpgradeRefused);
    await expect(refused).rejects.toMatchObject({
      status: 404,
      body: { error: { code: 'not_found' } },
      headers: { 'drover-server': expect.any(String) },
    });
  });

  test('takes a query with its path', async () => {
    const worker = await connect({ port: bench.port, path: '/api/v1/worker-stream?from=here' });
    worker.send(helloOf());
    await worker.next('welcome');
    worker.terminate();
  });

  test('of a page in the browser of the owner is forbidden', async () => {
    const page = connect({ port: bench.port, headers: { origin: 'http://elsewhere.example' } });
    await expect(page).rejects.toMatchObject({ status: 403, body: { error: { code: 'forbidden' } } });
  });

  test('needs the token of a worker where there are tokens', async () => {
    const guarded = await createApiBench({ tokens: TOKENS });
    const { port } = guarded;
    await expect(connect({ port })).rejects.toMatchObject({
      status: 401,
      body: { error: { code: 'unauthenticated' } },
      headers: { 'www-authenticate': 'Bearer realm="drover"' },
    });
    await expect(connect({ port, token: 'worker-0123456789abcdeF' })).rejects.toMatchObject({ status: 401 });
    for (const role of ['viewer', 'operator', 'client'] as const) {
      const forbidden = connect({ port, token: tokenOf(role) });
      await expect(forbidden).rejects.toMatchObject({ status: 403, body: { error: { code: 'forbidden' } } });
    }
    for (const role of ['worker', 'admin'] as const) {
      const worker = await connect({ port, token: tokenOf(role) });
      worker.send(helloOf());
      await worker.next('welcome');
      worker.terminate();
    }
    await guarded.close();
  });
});

test('after all of this the server is well', async () => {
  const { body } = await bench.call('/api/deep_ping');
  expect(body).toMatchObject({ status: 'okay' });
  const { worker, grant } = await granted();
  worker.send({ kind: 'outcomes', items: [succeeded(grant, { result: '42' })] });
  expect((await worker.next('ack')).items).toEqual([grant]);
});
