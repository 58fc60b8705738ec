/** No answer to a token with `payloads: false` contains what jobs carry. */
import { newId, ROUTES, type Route, type RouteName } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiBench, createApiBench, TOKENS, tokenOf } from '../api/api-bench.js';

const CANARY = 'canary-1d9c';
const canary = (part: string) => `${CANARY}-${part}`;
const SCHEDULE = { every: '1d', job: { type: 'echo', payload: { secret: canary('schedule') } } };
/** Where callers who may read payloads do see them: without this the test would show nothing. */
const SHOWN: readonly RouteName[] = [
  ...(['listJobs', 'getJob', 'jobResult', 'cancelJob', 'retryJob', 'failJob', 'listWorkers'] as const),
  ...(['getWorkflow', 'getRun'] as const),
  ...(['listSchedules', 'getSchedule', 'putSchedule', 'pauseSchedule', 'resumeSchedule'] as const),
];

let api: ApiBench;
const WORKFLOW = { steps: { one: { type: 'none', input: canary('definition') } } };
let ids: Record<'ready' | 'failed' | 'unknown' | 'run', string>;
let hidden: string;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS });
  const client = createClient({ url: api.server.address, token: tokenOf('admin') });
  hidden = (await client.tokens.create({ name: 'blind', role: 'operator', payloads: false })).secret;
  await client.close();
});
afterAll(() => api.close());

/** One job in each state that a route needs, made again for each request, because requests change them. */
async function makeTargets(): Promise<void> {
  ids = { ready: newId(), failed: newId(), unknown: newId(), run: newId() };
  const error = JSON.stringify({ name: 'Error', message: canary('message'), stack: canary('stack'), code: 'oops' });
  const attempt = JSON.stringify({
    ...{ attempt: 1, outcome: 'failed', startedAt: null, finishedAt: null, worker: null },
    error: { name: 'Error', message: canary('attempt'), stack: canary('attempt-stack') },
  });
  const json = (part: string) => JSON.stringify({ secret: canary(part) });
  const { pool } = api.database;
  const session = newId();
  await pool.query(
    `insert into drover.session (id, name, host, pid, sdk, types, slots, expires_at, last_error)
     values ($1, 'w', 'h', 1, 's', '{echo}', 1, now() + interval '1 hour', $2)`,
    [session, canary('trouble')],
  );
  for (const id of [ids.ready, ids.unknown]) {
    await pool.query(
      `insert into drover.job (id, queue, type, payload, progress, attempts) values ($1, 'default', 'echo', $2, $3, array[$4::json])`,
      [id, json('payload'), json('progress'), attempt],
    );
  }
  const grant = `update drover.job set state = 'running', session_id = $2, fence = 1, attempt = 1 where id = $1`;
  await pool.query(grant, [ids.unknown, session]);
  await pool.query(`update drover.job set state = 'unknown' where id = $1`, [ids.unknown]);
  await pool.query(
    `insert into drover.job_history (id, created_at, run_at, finished_at, fence, attempt, max_attempts, lost_attempts, priority,
       state, queue, type, payload, progress, result, error, attempts)
     values ($1, now(), now(), now(), 1, 1, 1, 0, 0, 'failed', 'default', 'echo', $2, $3, $4, $5, array[$6::json])`,
    [ids.failed, json('payload'), json('progress'), json('result'), error, attempt],
  );
  const made = await api.call('/api/v1/schedules/secret', { method: 'PUT', body: SCHEDULE, token: tokenOf('admin') });
  expect(made.status).toBe(200);
  await api.call('/api/v1/workflows/secret', { method: 'PUT', body: WORKFLOW, token: tokenOf('admin') });
  const run = { workflow: 'secret', id: ids.run, input: canary('input') };
  expect((await api.call('/api/v1/runs', { method: 'POST', body: run, token: tokenOf('admin') })).status).toBe(201);
}

const BODIES: Partial<Record<RouteName, unknown>> = {
  enqueueJob: { type: 'echo' },
  enqueueJobs: { jobs: [{ type: 'echo' }] },
  putSchedule: SCHEDULE,
  putWorkflow: WORKFLOW,
  startRun: { workflow: 'secret' },
  repeatRun: { from: 'one' },
  previewSchedule: { every: '1d' },
  backfillSchedule: { from: '2030-01-01T00:00:00Z', to: '2030-01-02T00:00:00Z' },
  putCalendar: { dates: ['2030-12-25'] },
};
const TARGETS: Partial<Record<RouteName, 'ready' | 'unknown'>> = { cancelJob: 'ready', failJob: 'unknown' };

function callAs(name: RouteName, token: string) {
  const { method, path, body, bodyType } = ROUTES[name] as Route;
  const query = name === 'listJobs' ? '?include=payload,progress,result,stack&limit=1000' : '';
  const url = path
    .replace('/jobs/:id', `/jobs/${ids[TARGETS[name] ?? 'failed']}`)
    .replace('/runs/:id', `/runs/${ids.run}`)
    .replace(':id', newId())
    .replace('/calendars/:name', '/calendars/days')
    .replace(':name', 'secret');
  const headers = bodyType === undefined ? {} : { 'content-type': bodyType };
  const given = bodyType === undefined ? (BODIES[name] ?? (body && {})) : '';
  return api.call(url + query, { method, body: given, headers, token });
}

test.each(Object.keys(ROUTES) as RouteName[])('%s shows no payload to a token that may read none', async (name) => {
  await makeTargets();
  const blind = await callAs(name, hidden);
  expect(blind.text).not.toContain(CANARY);
  if (!SHOWN.includes(name)) return;
  expect([name, blind.status]).toEqual([name, 200]);
  await makeTargets();
  expect((await callAs(name, tokenOf('operator'))).text).toContain(CANARY);
});

test('in place of a value is its size', async () => {
  await makeTargets();
  const { body } = await callAs('getJob', hidden);
  const bytes = (text: string) => Buffer.byteLength(text);
  const mark = (text: string) => ({ hidden: true, bytes: bytes(text) });
  expect(body).toMatchObject({
    payload: mark(JSON.stringify({ secret: canary('payload') })),
    result: mark(JSON.stringify({ secret: canary('result') })),
    error: {
      ...{ name: 'Error', code: 'oops' },
      message: JSON.stringify(mark(canary('message'))),
      stack: JSON.stringify(mark(canary('stack'))),
    },
  });
});
