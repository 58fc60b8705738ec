/** Every route that changes something writes one row of the audit trail, in the transaction of the change. */
import { type AuditEntry, newId, ROUTES, type Route, type RouteName } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pruneAudit } from '../../src/access/audit.js';
import { createDenials } from '../../src/access/denials.js';
import { type Caller, UNLIMITED } from '../../src/access/principal.js';
import { pruneTokens } from '../../src/access/token-table.js';
import { connectDatabase } from '../../src/db/database.js';
import { type Answer, type ApiBench, createApiBench, errorOf, TOKENS, tokenOf } from '../api/api-bench.js';
import { drover } from '../cli/run-cli.js';

type Change = { [Name in RouteName]: (typeof ROUTES)[Name] extends { method: 'GET' } ? never : Name }[RouteName];
type Prepared = { path?: Record<string, string>; body?: unknown; target: string | null };

const CANARY = 'canary-7f31';
const SCHEDULE = { every: '1d', job: { type: 'echo', payload: { secret: CANARY } } };
const send = (method: string, path: string, body?: unknown) =>
  api.call(path, { method, body, token: tokenOf('admin') });
const put = (name: string, schedule: object = SCHEDULE) => send('PUT', `/api/v1/schedules/${name}`, schedule);
const idOf = (answer: Answer) => (answer.body as { id: string }).id;

async function job(state: 'ready' | 'failed' | 'unknown'): Promise<string> {
  const id = idOf(await send('POST', '/api/v1/jobs', { type: 'echo', payload: CANARY }));
  const { pool } = api.database;
  if (state === 'failed') await send('POST', `/api/v1/jobs/${id}/cancel`);
  if (state !== 'unknown') return id;
  await pool.query(`update drover.job set state = 'running', session_id = $2, fence = 1, attempt = 1 where id = $1`, [
    ...[id, await worker()],
  ]);
  await pool.query(`update drover.job set state = 'unknown' where id = $1`, [id]);
  return id;
}

async function worker(): Promise<string> {
  const id = newId();
  await api.database.pool.query(
    `insert into drover.session (id, name, host, pid, sdk, types, slots, expires_at)
     values ($1, 'w', 'h', 1, 's', '{echo}', 1, now() + interval '1 hour')`,
    [id],
  );
  return id;
}

const ofJob = async (state: 'ready' | 'failed' | 'unknown'): Promise<Prepared> => {
  const id = await job(state);
  return { path: { id }, target: id };
};
const ofSchedule = async (body?: unknown): Promise<Prepared> => {
  await put('s');
  return { path: { name: 's' }, body, target: 's' };
};
const ofToken = async (): Promise<Prepared> => {
  const id = idOf(await send('POST', '/api/v1/tokens', { name: newId(), role: 'viewer' }));
  return { path: { id }, target: id };
};
const ofWorker = async (): Promise<Prepared> => {
  const id = await worker();
  return { path: { id }, target: `worker ${id}` };
};
const resumed = async (path: string, given: Prepared): Promise<Prepared> => {
  await send('POST', path);
  return given;
};

async function ofRun(state: 'running' | 'cancelled', body?: unknown): Promise<Prepared> {
  await send('PUT', '/api/v1/workflows/w', { steps: { one: { type: 'echo', input: CANARY } } });
  const id = idOf(await send('POST', '/api/v1/runs', { workflow: 'w', input: CANARY }));
  if (state === 'cancelled') await send('POST', `/api/v1/runs/${id}/cancel`);
  return { path: { id }, body, target: body === undefined ? id : (expect.any(String) as string) };
}

/** How each route is made to change something, and what its row is about. A route that is not here does not compile. */
const CHANGES: Record<Change, (() => Promise<Prepared>) | 'needs auditEnqueues' | 'changes nothing'> = {
  ...{ enqueueJob: 'needs auditEnqueues', enqueueJobs: 'needs auditEnqueues', enqueueBulk: 'needs auditEnqueues' },
  previewSchedule: 'changes nothing',
  cancelJob: () => ofJob('ready'),
  retryJob: () => ofJob('failed'),
  failJob: () => ofJob('unknown'),
  pauseWorker: ofWorker,
  resumeWorker: ofWorker,
  pauseQueue: async () => ({ path: { name: 'q' }, target: 'queue q' }),
  resumeQueue: () => resumed('/api/v1/queues/q/pause', { path: { name: 'q' }, target: 'queue q' }),
  pauseType: async () => ({ path: { name: 't' }, target: 'type t' }),
  resumeType: () => resumed('/api/v1/types/t/pause', { path: { name: 't' }, target: 'type t' }),
  pauseCluster: async () => ({ target: 'cluster' }),
  resumeCluster: () => resumed('/api/v1/cluster/pause', { target: 'cluster' }),
  putSchedule: async () => ({ path: { name: newId() }, body: SCHEDULE, target: expect.any(String) as string }),
  deleteSchedule: () => ofSchedule(),
  triggerSchedule: () => ofSchedule(),
  pauseSchedule: () => ofSchedule(),
  async resumeSchedule() {
    await put('s');
    return resumed('/api/v1/schedules/s/pause', { path: { name: 's' }, target: 's' });
  },
  backfillSchedule: () => ofSchedule({ from: '2030-01-01T00:00:00Z', to: '2030-01-02T00:00:00Z' }),
  putCalendar: async () => ({
    path: { name: newId() },
    body: { dates: ['2030-12-25'] },
    target: expect.any(String) as string,
  }),
  async deleteCalendar() {
    await send('PUT', '/api/v1/calendars/days', { dates: ['2030-12-25'] });
    return { path: { name: 'days' }, target: 'days' };
  },
  async forgetType() {
    await api.database.pool.query(
      `insert into drover.job_type (type, defined_at) values ('old', now()) on conflict do nothing`,
    );
    return { path: { name: 'old' }, target: 'type old' };
  },
  putWorkflow: async () => ({
    path: { name: 'new' },
    body: { steps: { one: { type: 'echo', input: CANARY } } },
    target: 'workflow new',
  }),
  async startRun() {
    await ofRun('running');
    const id = newId();
    return { body: { workflow: 'w', id, input: CANARY }, target: id };
  },
  cancelRun: () => ofRun('running'),
  retryRun: () => ofRun('cancelled'),
  repeatRun: () => ofRun('cancelled', { from: 'one' }),
  createToken: async () => ({ body: { name: newId(), role: 'viewer' }, target: expect.any(String) as string }),
  revokeToken: ofToken,
  rotateToken: ofToken,
};
const changes = Object.entries(CHANGES) as [Change, (typeof CHANGES)[Change]][];

let api: ApiBench;
let auditor: string;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS });
  auditor = tokenOf('auditor');
});
afterAll(() => api.close());

async function rows(query: Record<string, string> = {}): Promise<AuditEntry[]> {
  const answer = await api.call(`/api/v1/audit?${new URLSearchParams({ limit: '1000', ...query })}`, {
    token: auditor,
  });
  expect(answer.status).toBe(200);
  expect(answer.text).not.toContain(CANARY);
  return (answer.body as { items: AuditEntry[] }).items;
}

test('every route that is no GET is entered here', () => {
  const changing = (Object.keys(ROUTES) as RouteName[]).filter((name) => ROUTES[name].method !== 'GET');
  expect(Object.keys(CHANGES).sort()).toEqual(changing.sort());
});

test.each(changes.filter(([, prepare]) => typeof prepare === 'function'))(
  '%s writes one row',
  async (name, prepare) => {
    if (typeof prepare !== 'function') return;
    const { path = {}, body, target } = await prepare();
    const { method, path: pattern, body: schema } = ROUTES[name] as Route;
    const before = (await rows()).length;
    const answer = await api.call(
      pattern.replace(/:(\w+)/g, (_match, param: string) => path[param] as string),
      {
        ...{ method, body: body ?? (schema && {}), token: tokenOf('admin') },
        headers: { 'x-request-id': 'the-request' },
      },
    );
    expect([200, 201]).toContain(answer.status);
    const all = await rows();
    expect(all.length).toBe(before + 1);
    expect(all[0]).toMatchObject({
      ...{ action: name, principal: 'the-admin', kind: 'configured', tokenId: null, address: '127.0.0.1' },
      ...{ requestId: 'the-request', target, outcome: 'done' },
    });
  },
);

test('a row says what was before and after, with the size and the hash of a payload in its place', async () => {
  await put('compared');
  await put('compared', { every: '2d', job: { type: 'echo', payload: { secret: CANARY } } });
  await put('compared', { every: '2d', job: { type: 'echo', payload: { secret: CANARY } } });
  const [changed, created, ...others] = await rows({ target: 'compared' });
  expect(others).toEqual([]);
  const payload = { bytes: JSON.stringify({ secret: CANARY }).length, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) };
  expect(created).toMatchObject({ before: null, after: { version: 1, job: { type: 'echo', payload } } });
  expect(changed).toMatchObject({ before: created?.after, after: { version: 2, job: { payload } } });
  const id = await job('ready');
  await send('POST', `/api/v1/jobs/${id}/cancel`);
  expect(await rows({ target: id })).toMatchObject([{ before: { state: 'ready' }, after: { state: 'cancelled' } }]);
});

test('what changes nothing writes no row', async () => {
  const id = await job('failed');
  const before = (await rows()).length;
  expect((await send('POST', `/api/v1/jobs/${id}/fail`)).status).toBe(409);
  expect((await send('DELETE', '/api/v1/schedules/no-such')).body).toEqual({ deleted: false });
  expect((await send('POST', '/api/v1/queues/no-such/resume')).body).toEqual({ resumed: false });
  expect((await send('POST', '/api/v1/schedules/preview', { every: '1d' })).status).toBe(200);
  expect((await rows()).length).toBe(before);
});

test('a change that is rolled back leaves no row, and a row that cannot be written no change', async () => {
  const { pool } = api.database;
  const before = (await rows()).length;
  await pool.query(`alter table drover.pause add constraint refused check (name <> 'refused')`);
  expect((await send('POST', '/api/v1/queues/refused/pause')).status).toBe(500);
  expect((await rows()).length).toBe(before);

  await pool.query(`alter table drover.audit add constraint refused check (target <> 'queue unaudited')`);
  expect((await send('POST', '/api/v1/queues/unaudited/pause')).status).toBe(500);
  const { rows: pauses } = await pool.query(`select from drover.pause where name = 'unaudited'`);
  expect(pauses).toEqual([]);
});

test('a denied request of a caller is written once in a minute, with how many came since', async () => {
  for (let count = 0; count < 3; count++) {
    expect((await api.call('/api/v1/cluster/pause', { method: 'POST', token: tokenOf('client') })).status).toBe(403);
  }
  await expect
    .poll(() => rows({ outcome: 'denied', principal: 'the-client' }))
    .toMatchObject([
      { action: 'pauseCluster', after: { message: '"the-client" has the role client, this needs operator or admin' } },
    ]);

  const db = connectDatabase({ url: api.database.url, poolSize: 1 });
  let nowMs = 0;
  const denials = createDenials({ db: db.bulk, logger: pino({ level: 'silent' }), now: () => nowMs });
  const by: Caller = {
    principal: { name: 'sampled', role: 'viewer', kind: 'configured', ...UNLIMITED },
    ...{ address: '::1', requestId: null, action: 'failJob' },
  };
  const error = errorLike('no');
  for (const atMs of [0, 1, 59_999, 60_000]) {
    nowMs = atMs;
    denials.note(by, error);
  }
  await expect.poll(() => rows({ principal: 'sampled' })).toHaveLength(2);
  expect((await rows({ principal: 'sampled' })).map(({ after }) => after)).toEqual(
    expect.arrayContaining([{ message: 'no' }, { message: 'no', skipped: 2 }]),
  );
  await db.close();
});

const errorLike = (message: string) => ({ message }) as Parameters<ReturnType<typeof createDenials>['note']>[1];

test('the trail is read page by page, by filters, by the SDK and the command line, and by no other role', async () => {
  const client = createClient({ url: api.server.address, token: auditor });
  const all = await client.audit({ limit: 1000 });
  const first = await client.audit({ limit: 2 });
  const second = await client.audit({ limit: 2, cursor: first.nextCursor ?? undefined });
  expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(all.items.slice(0, 4).map(({ id }) => id));
  const paused = await client.audit({
    action: 'pauseQueue',
    from: '2020-01-01T00:00:00Z',
    to: new Date(Date.now() + 60_000),
  });
  expect(paused.items.length).toBeGreaterThan(0);
  expect((await client.audit({ action: 'pauseQueue', to: '2020-01-01T00:00:00Z' })).items).toEqual([]);
  await client.close();

  const args = ['audit', '--action', 'pauseQueue', '--limit', '1', '--url', api.server.address];
  const shown = await drover(args, { env: { DROVER_TOKEN: auditor } });
  expect(shown.stdout).toMatch(/pauseQueue +queue \w+ +the-admin/);
  const refused = await api.call('/api/v1/audit', { token: tokenOf('operator') });
  expect(errorOf(refused).message).toBe('"the-operator" has the role operator, this needs auditor or admin');
});

test('rows past their retention are deleted, and tokens that were not valid for as long', async () => {
  const { pool } = api.database;
  const db = connectDatabase({ url: api.database.url, poolSize: 1 });
  const [old, revoked, used] = [newId(), newId(), newId()];
  await pool.query(
    `insert into drover.audit (id, at, principal, kind, address, action, outcome)
     values ($1, now() - interval '2 days', 'x', 'open', '::1', 'failJob', 'done')`,
    [old],
  );
  await pool.query(
    `insert into drover.token (id, name, role, hash, created_by, revoked_at, revoked_by)
     values ($1, 'gone', 'viewer', '', 'x', now() - interval '2 days', 'x'), ($2, 'stays', 'viewer', '', 'x', null, null)`,
    [revoked, used],
  );
  const before = (await rows()).length;
  await pruneAudit(db.reads, 86_400_000);
  await pruneTokens(db.reads, 86_400_000);
  expect((await rows()).length).toBe(before - 1);
  const { rows: kept } = await pool.query('select id from drover.token where id = any($1)', [[revoked, used]]);
  expect(kept).toEqual([{ id: used }]);
  await db.close();
});

test('with auditEnqueues, requests that add jobs have a row each, however they share statements', async () => {
  const bench = await createApiBench({ tokens: TOKENS, auditEnqueues: true });
  const post = (path: string, body: unknown, type = 'application/json') =>
    bench.call(path, { method: 'POST', body, token: tokenOf('client'), headers: { 'content-type': type } });
  const bulkIds = Array.from({ length: 20 }, newId);
  const bulk = `{"type":"echo","ids":${JSON.stringify(bulkIds)}}\n${'1\n'.repeat(20)}`;
  const answers = await Promise.all([
    ...Array.from({ length: 10 }, () => post('/api/v1/jobs', { type: 'echo', payload: CANARY })),
    post('/api/v1/jobs/batch', { jobs: [{ type: 'a' }, { type: 'b' }] }),
    post('/api/v1/jobs/bulk', bulk, 'application/x-ndjson'),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 12 }, () => 201));
  const answer = await bench.call('/api/v1/audit?limit=1000', { token: tokenOf('auditor') });
  const { items } = answer.body as { items: AuditEntry[] };
  expect(items.map(({ action }) => action).sort()).toEqual([
    ...['enqueueBulk', ...Array.from({ length: 10 }, () => 'enqueueJob'), 'enqueueJobs'],
  ]);
  expect(answer.text).not.toContain(CANARY);
  expect(items.find(({ action }) => action === 'enqueueBulk')).toMatchObject({
    target: bulkIds[0],
    after: { jobs: 20, first: bulkIds[0], last: bulkIds.at(-1) },
  });
  const { rows: jobs } = await bench.database.pool.query('select count(*)::int as jobs from drover.job');
  expect(jobs).toEqual([{ jobs: 32 }]);
  await bench.close();
});
