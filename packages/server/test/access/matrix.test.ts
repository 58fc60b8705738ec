/** Every route by every role and scope. What is expected follows from the table of routes; a new route has to be entered below. */
import { newId, ROLES, ROUTES, type Role, type Route, type RouteName } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type ApiBench, createApiBench, errorOf, tokenOf } from '../api/api-bench.js';

type Checked = { [Name in RouteName]: (typeof ROUTES)[Name] extends { scope: 'checked' } ? Name : never }[RouteName];
type Outside = 'forbidden' | 'job_not_found' | 'schedule_not_found' | 'filtered';

/** The answer of each route that checks scopes to a token whose scope is another one. */
const OUTSIDE: Record<Checked, Outside> = {
  enqueueJob: 'forbidden',
  enqueueJobs: 'forbidden',
  enqueueBulk: 'forbidden',
  listJobs: 'filtered',
  getJob: 'job_not_found',
  cancelJob: 'job_not_found',
  retryJob: 'job_not_found',
  failJob: 'job_not_found',
  jobResult: 'job_not_found',
  listQueues: 'filtered',
  listPauses: 'filtered',
  pauseQueue: 'forbidden',
  resumeQueue: 'forbidden',
  pauseType: 'forbidden',
  resumeType: 'forbidden',
  listSchedules: 'filtered',
  getSchedule: 'schedule_not_found',
  putSchedule: 'forbidden',
  deleteSchedule: 'forbidden',
  triggerSchedule: 'schedule_not_found',
  pauseSchedule: 'schedule_not_found',
  resumeSchedule: 'schedule_not_found',
  backfillSchedule: 'schedule_not_found',
  listOccurrences: 'schedule_not_found',
};

const QUEUE = 'mail.out';
const TYPE = 'send_mail';
/** A pause is about a whole queue or a whole type. */
const INSIDE: Partial<Record<RouteName, object>> = {
  ...{ pauseQueue: { queues: ['mail.*'] }, resumeQueue: { queues: ['mail.*'] } },
  ...{ pauseType: { types: ['send_*'] }, resumeType: { types: ['send_*'] } },
};
const SCHEDULE = { every: '1d', job: { type: TYPE, queue: QUEUE } };
const BODIES: Partial<Record<RouteName, () => object | string>> = {
  enqueueJob: () => ({ type: TYPE, queue: QUEUE }),
  enqueueJobs: () => ({ jobs: [{ type: TYPE, queue: QUEUE }] }),
  enqueueBulk: () => `{"type":"${TYPE}","queue":"${QUEUE}","ids":["${newId()}"]}\n1\n`,
  putSchedule: () => SCHEDULE,
  putWorkflow: () => ({ steps: { one: { type: TYPE } } }),
  startRun: () => ({ workflow: 'none' }),
  repeatRun: () => ({ from: 'one' }),
  previewSchedule: () => ({ every: '1d' }),
  backfillSchedule: () => ({ from: '2030-01-01T00:00:00Z', to: '2030-01-02T00:00:00Z' }),
  putCalendar: () => ({ dates: ['2030-12-25'] }),
  createToken: () => ({ name: newId(), role: 'viewer' }),
};

const names = Object.keys(ROUTES) as RouteName[];
const guarded = names.filter((name) => (ROUTES[name] as Route).roles !== 'anyone');

let api: ApiBench;
let jobId: string;
const secrets = new Map<string, Promise<string>>();
beforeAll(async () => {
  api = await createApiBench({ tokens: [{ name: 'the-admin', role: 'admin', token: tokenOf('admin') }] });
  jobId = ((await asAdmin('POST', '/api/v1/jobs', BODIES.enqueueJob?.())).body as { id: string }).id;
});
afterAll(() => api.close());

function asAdmin(method: string, path: string, body?: unknown): Promise<Answer> {
  return api.call(path, { method, body, token: tokenOf('admin') });
}

/** One token for each role and scope. */
function secretOf(role: Role, scope: object): Promise<string> {
  const key = JSON.stringify([role, scope]);
  const known =
    secrets.get(key) ??
    asAdmin('POST', '/api/v1/tokens', { name: newId(), role, ...scope }).then(
      ({ body }) => (body as { secret: string }).secret,
    );
  secrets.set(key, known);
  return known;
}

async function callAs(name: RouteName, role: Role, scope: object): Promise<Answer> {
  const route: Route = ROUTES[name];
  if (route.path.includes('/schedules')) await asAdmin('PUT', '/api/v1/schedules/report', SCHEDULE);
  const named = route.path.includes('/queues/') ? QUEUE : route.path.includes('/types/') ? TYPE : 'report';
  const path = route.path.replace('/jobs/:id', `/jobs/${jobId}`).replace(':id', newId()).replace(':name', named);
  const body = BODIES[name]?.();
  const headers = route.bodyType === undefined ? {} : { 'content-type': route.bodyType };
  const token = await secretOf(role, scope);
  return api.call(path, { method: route.method, body: body ?? (route.body && {}), headers, token });
}

/** Nothing was refused for who asked; a job may be in another state, and a made-up id names nothing. */
const LET_IN = [200, 201, 409];
const NOTHING_THERE = [
  'worker_not_found',
  'type_not_found',
  'token_not_found',
  'calendar_not_found',
  'workflow_not_found',
  'run_not_found',
];
function expectLetIn(answer: Answer): void {
  if (LET_IN.includes(answer.status)) return;
  expect([answer.status, NOTHING_THERE.includes(errorOf(answer).code), answer.text]).toEqual([404, true, answer.text]);
}

describe.each(guarded)('%s', (name) => {
  const { roles, scope } = ROUTES[name] as Route;

  test.each(ROLES)('by the role %s, without a scope, in its scope and outside', async (role) => {
    const mayCall = role === 'admin' || roles.includes(role);
    const all = await callAs(name, role, {});
    if (!mayCall) expect([all.status, errorOf(all).code]).toEqual([403, 'forbidden']);
    else expectLetIn(all);
    if (role === 'admin') return;

    const inside = await callAs(name, role, INSIDE[name] ?? { queues: ['mail.*'], types: ['send_mail', 'other'] });
    const outside = await callAs(name, role, { queues: ['billing'], types: ['charge'] });
    if (!mayCall || scope === undefined) {
      for (const answer of [inside, outside]) expect([answer.status, errorOf(answer).code]).toEqual([403, 'forbidden']);
      return;
    }
    expectLetIn(inside);
    if (scope === 'free') return expectLetIn(outside);
    const expected = OUTSIDE[name as Checked];
    if (expected !== 'filtered') return expect(errorOf(outside).code).toBe(expected);
    expect(outside.body).toMatchObject({ items: [] });
    if (name !== 'listPauses') expect((inside.body as { items: unknown[] }).items.length).toBeGreaterThan(0);
  });
});

test('every route that checks scopes is entered here', () => {
  const checked = names.filter((name) => (ROUTES[name] as Route).scope === 'checked');
  expect(Object.keys(OUTSIDE).sort()).toEqual(checked.sort());
});
