/** A broken or hostile worker beside an honest one: it harms only itself. */
import { type Grant, LIMITS, newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../../../../../test/support/until.js';
import { createServer } from '../../../src/server.js';
import { type ApiBench, createApiBench } from '../../api/api-bench.js';
import { connect, helloOf, type RawWorker, register, succeeded } from '../../support/raw-worker.js';

let bench: ApiBench;
beforeAll(async () => {
  bench = await createApiBench({ beatMs: 300, leaseMs: 1500 });
});
afterAll(() => bench.close());

/** A worker with a job that only it takes. */
async function granted(): Promise<{ worker: RawWorker; sessionId: string; grant: Grant }> {
  const type = `only-${newId()}`;
  const { worker, hello } = await register(bench.port, { types: [type] });
  await bench.call('/api/v1/jobs', { method: 'POST', body: { type, payload: 1 } });
  const [job] = (await worker.next('assign')).jobs;
  return { worker, sessionId: hello.sessionId, grant: { id: job?.id ?? '', fence: job?.fence ?? 0 } };
}

async function one<Row>(text: string, id: string): Promise<Row | undefined> {
  return (await bench.database.pool.query(text, [id])).rows[0] as Row | undefined;
}

const finished = (id: string) =>
  one<{ state: string; result: unknown; error: { code?: string; message: string } }>(
    'select state, result, error from drover.job_history where id = $1',
    id,
  );
const progressOf = async (id: string) =>
  (await one<{ progress: unknown }>('select progress from drover.job where id = $1', id))?.progress;

const TROUBLES = [
  ['U+0000', 'disk\u0000full'],
  ['a high surrogate', 'half a smile \ud83d'],
  ['a low surrogate', '\ude00'],
  ['an enormous text', 'x'.repeat(5_000_000)],
] as const;

describe('a beat', () => {
  test.each(TROUBLES)('with %s in its trouble is stored, and the leases of others are renewed', async (_, trouble) => {
    const honest = await register(bench.port);
    const hostile = await register(bench.port);
    hostile.worker.send({ kind: 'beat', beat: 1, running: 0, received: 0, trouble });
    honest.worker.send({ kind: 'beat', beat: 1, running: 0, received: 0 });
    expect(await honest.worker.next('beat')).toMatchObject({ beat: 1 });
    expect(await hostile.worker.next('beat')).toMatchObject({ beat: 1 });
    const row = await one<{ last_error: string }>(
      'select last_error from drover.session where id = $1',
      hostile.hello.sessionId,
    );
    expect(row?.last_error.length).toBeLessThanOrEqual(LIMITS.errorMessageLength);
    honest.worker.terminate();
    hostile.worker.terminate();
  });
});

describe('progress', () => {
  const VALUES = [
    ['not JSON', '{"half":'],
    ['U+0000', '"a\u0000b"'],
    ['a nest deeper than PostgreSQL takes', '['.repeat(30_000) + ']'.repeat(30_000)],
  ] as const;
  test.each(VALUES)('of %s is ignored, and that of others is written', async (_, value) => {
    const honest = await granted();
    const hostile = await granted();
    for (let turn = 0; turn < 20; turn++) {
      hostile.worker.send({ kind: 'progress', items: [{ ...hostile.grant, value }] });
      honest.worker.send({ kind: 'progress', items: [{ ...honest.grant, value: String(turn) }] });
    }
    await until('the progress of the honest worker', async () => (await progressOf(honest.grant.id)) === 19);
    expect(await progressOf(hostile.grant.id)).toBeNull();
    hostile.worker.terminate();
    honest.worker.terminate();
  });
});

describe('an outcome', () => {
  const RESULTS = [
    ['that is not JSON', '{"half":'],
    ['with U+0000', '"a\u0000b"'],
    ['that is deeper than PostgreSQL takes', '['.repeat(30_000) + ']'.repeat(30_000)],
  ] as const;
  test.each(RESULTS)('with a result %s fails its job, and the others of its frame are written', async (_, result) => {
    const { worker, grant } = await granted();
    const other = await granted();
    worker.send({ kind: 'outcomes', items: [succeeded(grant, { result })] });
    other.worker.send({ kind: 'outcomes', items: [succeeded(other.grant, { result: '1' })] });
    await worker.next('ack');
    await other.worker.next('ack');
    expect(await finished(grant.id)).toMatchObject({ state: 'failed', error: { code: 'outcome_refused' } });
    expect(await finished(other.grant.id)).toMatchObject({ state: 'succeeded', result: 1 });
  });

  test('with enormous texts in its error is stored with texts of limited length', async () => {
    const { worker, grant } = await granted();
    const text = '\u0000x'.repeat(1_000_000);
    const error = { name: text, message: text, stack: text, code: text };
    worker.send({ kind: 'outcomes', items: [{ ...grant, kind: 'failed', runMs: 1, error }] });
    await worker.next('ack');
    expect(JSON.stringify((await finished(grant.id))?.error).length).toBeLessThan(50_000);
  });

  test('with more children than a frame may have is refused before they are read', async () => {
    const { worker, grant } = await granted();
    const children = Array.from({ length: 10_000 }, () => 0);
    worker.send({ kind: 'outcomes', items: [1, 2].map(() => succeeded(grant, { children })) });
    expect((await worker.next('refused')).message).toBe(
      'items: expected at most 10000 children in one frame, got 20000',
    );
  });

  const TIMES = [
    ['a snooze of 285,000 years', { kind: 'snoozed', runMs: 1, inMs: 9e15 }],
    ['a retry in 285,000 years', { kind: 'failed', runMs: 1, retryInMs: 9e15, error: { name: 'E', message: 'm' } }],
    ['a run of 285,000 years', { kind: 'succeeded', runMs: 9e15 }],
  ] as const;
  test.each(TIMES)('with %s fails its job, and lists can still be read', async (_, outcome) => {
    const { worker, grant } = await granted();
    worker.send({ kind: 'outcomes', items: [{ ...grant, ...outcome }] });
    await worker.next('ack');
    expect(await finished(grant.id)).toMatchObject({ state: 'failed', error: { code: 'outcome_refused' } });
    expect((await bench.call('/api/v1/jobs?limit=1000')).status).toBe(200);
    expect((await bench.call(`/api/v1/jobs/${grant.id}`)).status).toBe(200);
  });
});

describe('a hello', () => {
  test('with more grants than a worker can hold is refused before they are read', async () => {
    const holds = Array.from({ length: LIMITS.grants + 1 }, () => 0);
    await expect(register(bench.port, { holds: holds as never })).rejects.toThrow(/expected at most 50000 items/);
  });

  test('with as many grants as a worker can hold is answered soon', async () => {
    const holds = Array.from({ length: LIMITS.grants }, () => ({ id: newId(), fence: 1 }));
    const startedAt = performance.now();
    const { worker, welcome } = await register(bench.port, { holds });
    expect(welcome.dropped).toHaveLength(LIMITS.grants);
    expect(performance.now() - startedAt).toBeLessThan(2000);
    worker.terminate();
  });

  test('with more values than anything needs is refused before it is parsed', async () => {
    const worker = await connect({ port: bench.port });
    worker.send(`{"kind":"hello","holds":[${'{},'.repeat(LIMITS.jsonValues)}{}]}`);
    expect(await worker.next('refused')).toMatchObject({ code: 'request_too_large' });
  });

  test('with a number that no column takes is refused without the words of the database', async () => {
    const refusal = register(bench.port, { pid: 2 ** 40 });
    await expect(refusal).rejects.toThrow(/pid: /);
    await expect(refusal).rejects.not.toThrow(/out of range|type integer/);
  });
});

describe('a worker that takes in nothing', () => {
  const text = (type: string) => `{"type":"${type}","payload":${JSON.stringify('x'.repeat(250_000))}}`;

  async function add(type: string, jobs: number): Promise<void> {
    const answer = await bench.call('/api/v1/jobs/batch', {
      method: 'POST',
      body: `{"jobs":[${Array.from({ length: jobs }, () => text(type)).join(',')}]}`,
    });
    expect(answer.status).toBe(201);
  }
  const heldBy = async (sessionId: string) =>
    (await one<{ jobs: number }>('select count(*)::int as jobs from drover.job where session_id = $1', sessionId))
      ?.jobs;

  test('gets what it may hold, whatever it offers', async () => {
    const type = `only-${newId()}`;
    const ids = Array.from({ length: 3000 }, () => newId());
    const lines = [JSON.stringify({ type, ids }), ...ids.map(() => '1')].join('\n');
    const headers = { 'content-type': 'application/x-ndjson' };
    expect((await bench.call('/api/v1/jobs/bulk', { method: 'POST', headers, body: lines })).status).toBe(201);
    const { worker, hello } = await register(bench.port, { types: [type], slots: 5, window: 1_000_000 });
    await until('it holds what it may', async () => (await heldBy(hello.sessionId)) === 5 + LIMITS.prefetch);
    const [job] = (await worker.next('assign')).jobs;
    worker.send({ kind: 'offer', window: 2_000_000 });
    worker.send({ kind: 'outcomes', items: [succeeded(job as Grant)] });
    await worker.next('ack');
    const other = await register(bench.port, { types: [type], slots: 1, window: 10 });
    await other.worker.next('assign');
    expect(await heldBy(hello.sessionId)).toBeLessThanOrEqual(5 + LIMITS.prefetch);
    worker.terminate();
    other.worker.terminate();
  });

  test('gets no more, is not read from, and is disconnected after a lease; others continue', async () => {
    const type = `only-${newId()}`;
    const honest = await granted();
    let beat = 0;
    const beats = setInterval(() => {
      honest.worker.send({ kind: 'beat', beat: ++beat, running: 1, received: 1 });
    }, 200);
    const { worker, hello } = await register(bench.port, { types: [type], slots: 1000, window: 1_000_000 });
    worker.pause();
    for (let turn = 0; turn < 5; turn++) await add(type, 100);
    expect(await heldBy(hello.sessionId)).toBeLessThan(300);
    // its acknowledgements would fill the memory too
    const stale = Array.from({ length: LIMITS.frameOutcomes }, () => succeeded({ id: newId(), fence: 1 }));
    const frame = JSON.stringify({ kind: 'outcomes', items: stale });
    for (let turn = 0; turn < 250; turn++) worker.send(frame);
    await until('its lease has ended', async () => {
      const row = await one<{ ended: boolean }>(
        'select ended_at is not null as ended from drover.session where id = $1',
        hello.sessionId,
      );
      return row?.ended === true;
    });
    honest.worker.send({ kind: 'outcomes', items: [succeeded(honest.grant)] });
    expect((await honest.worker.next('ack')).items).toEqual([honest.grant]);
    clearInterval(beats);
    worker.terminate();
  });
});

describe('a session', () => {
  const stranger = 's'.repeat(43);

  test('is not taken over by a worker that knows its id and not its resume key', async () => {
    const { worker, sessionId, grant } = await granted();
    const taking = register(bench.port, { sessionId, resumeKey: stranger, holds: [grant] });
    await expect(taking).rejects.toThrow(/"code":"forbidden".*belongs to another worker/);
    // from another server too, where the session is only in the database
    const elsewhere = createServer({ ...bench.config, port: 0 }, { logger: pino({ level: 'silent' }) });
    await elsewhere.start();
    const port = Number(new URL(elsewhere.address).port);
    await expect(register(port, { sessionId, resumeKey: stranger, holds: [grant] })).rejects.toThrow(/forbidden/);
    worker.send({ kind: 'outcomes', items: [succeeded(grant)] });
    expect((await worker.next('ack')).items).toEqual([grant]);
    // its own worker moves freely
    const { worker: moved } = await register(port, { sessionId });
    moved.terminate();
    await elsewhere.stop();
  });

  test('is not inherited without its resume key, and its worker keeps its job', async () => {
    const { worker, sessionId, grant } = await granted();
    const previousSessions = [{ id: sessionId, resumeKey: stranger }];
    await expect(register(bench.port, { previousSessions, holds: [grant] })).rejects.toThrow(/forbidden/);
    worker.send({ kind: 'outcomes', items: [succeeded(grant)] });
    expect((await worker.next('ack')).items).toEqual([grant]);
  });

  test('is bound to the token that opened it, whatever its key', async () => {
    const tokens = ['one', 'other'].map((name) => ({
      name,
      role: 'worker' as const,
      token: `${name}-0123456789abcdef`,
    }));
    const guarded = await createApiBench({ tokens });
    const [mine, theirs] = tokens.map(({ token }) => token) as [string, string];
    const first = await connect({ port: guarded.port, token: mine });
    const hello = helloOf();
    first.send(hello);
    await first.next('welcome');
    const second = await connect({ port: guarded.port, token: theirs });
    second.send({ ...hello, connection: hello.connection + 1 });
    expect(await second.next('refused')).toMatchObject({ code: 'forbidden' });
    const third = await connect({ port: guarded.port, token: mine });
    third.send({ ...hello, connection: hello.connection + 2 });
    await third.next('welcome');
    third.terminate();
    await guarded.close();
  });

  test('shows its key nowhere: the database has hashes', async () => {
    const resumeKey = 'c'.repeat(43);
    const { worker } = await register(bench.port, { resumeKey });
    const { rows } = await bench.database.pool.query('select s::text as row from drover.session s');
    expect(JSON.stringify(rows)).not.toContain(resumeKey);
    expect((await bench.call('/api/v1/workers')).text).not.toContain(resumeKey);
    worker.terminate();
  });
});
