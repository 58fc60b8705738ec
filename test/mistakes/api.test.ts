/** Requests that a server refuses. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll } from 'vitest';
import {
  type ApiBench,
  createApiBench,
  errorOf,
  type RequestOptions,
  TOKENS,
  tokenOf,
} from '../../packages/server/test/api/api-bench.js';
import { describeMistakes } from './support/mistakes.js';

const JOBS = '/api/v1/jobs';
const ID = newId();

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS });
});
afterAll(() => api.close());

/** What the server answers to an administrator, or to the given token. */
const call =
  (path: string, options: RequestOptions = {}) =>
  async () => {
    const answer = await api.call(path, { token: tokenOf('admin'), ...options });
    if (answer.status < 400) throw new Error(`it was not refused: ${answer.status}`);
    return errorOf(answer).message;
  };
const post = (path: string, body: unknown) => call(path, { method: 'POST', body });
const put = (path: string, body: unknown) => call(path, { method: 'PUT', body });
const schedule = (timing: object) => put('/api/v1/schedules/nightly', { ...timing, job: { type: 'report' } });

describeMistakes('access', [
  [
    'no token',
    call(JOBS, { token: '' }),
    'expected the header authorization: Bearer TOKEN with a token that this server knows',
  ],
  [
    'an unknown token',
    call(JOBS, { token: 'admin-0123456789abcdeg' }),
    'expected the header authorization: Bearer TOKEN with a token that this server knows',
  ],
  [
    'a token in another scheme',
    call(JOBS, { token: '', headers: { authorization: 'Basic YTpi' } }),
    'expected the header authorization: Bearer TOKEN with a token that this server knows',
  ],
  [
    'a role that may not do this',
    call('/api/v1/cluster/pause', { method: 'POST', token: tokenOf('viewer') }),
    '"the-viewer" has the role viewer, this needs operator or admin',
  ],
]);

describeMistakes('requests', [
  ['an unknown address', call('/api/v1/job'), 'there is nothing at /api/v1/job'],
  [
    'another method',
    call(JOBS, { method: 'DELETE' }),
    'DELETE is not possible at /api/v1/jobs, expected POST, GET or HEAD',
  ],
  [
    'a form instead of JSON',
    call(JOBS, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'x' }),
    'expected a body with the header content-type: application/json',
  ],
  ['half a body', post(JOBS, '{"type":"he'), 'the body is not valid JSON: line 1, column 9: expected a value'],
  ['no body', call(JOBS, { method: 'POST' }), '(body): expected an object, got nothing'],
  ['a list instead of an object', post(JOBS, [{ type: 'mail' }]), '(body): expected an object, got [{"type":"mail"}]'],
  ['a job without a type', post(JOBS, { payload: 1 }), 'type: expected a string, got nothing'],
  [
    'a field with a wrong name',
    post(JOBS, { type: 'mail', maxAttemps: 3 }),
    'unknown field "maxAttemps"; did you mean "maxAttempts"?',
  ],
  ['a queue that is a number', post(JOBS, { type: 'mail', queue: 7 }), 'queue: expected a string, got 7'],
  [
    'a delay without a unit',
    post(JOBS, { type: 'mail', delay: '5' }),
    'delay: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "5"',
  ],
  [
    'a back-off without its delay',
    post(JOBS, { type: 'mail', backoff: { kind: 'fixed' } }),
    'backoff.delay: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got nothing',
  ],
  ['too many tags', post(JOBS, { type: 'mail', tags: Array(21).fill('x') }), 'tags: expected at most 20 items, got 21'],
  [
    'an id that is not a UUID',
    post(JOBS, { type: 'mail', id: 'order-4711' }),
    'id: expected a UUID (idempotencyKey takes any text), got "order-4711"',
  ],
  [
    'a wrong job of a batch',
    post(`${JOBS}/batch`, { jobs: [{ type: 'mail' }, { type: '' }] }),
    'jobs[1].type: expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, got ""',
  ],
  ['a job that is not there', call(`${JOBS}/${ID}`), () => `there is no job ${ID}, or its history has been pruned`],
  [
    'an unknown state in a list',
    call(`${JOBS}?state=done`),
    'state[0]: expected one of "blocked", "scheduled", "ready", "running", "unknown", "succeeded", "failed", "cancelled", got "done"',
  ],
  [
    'an unknown filter',
    call(`${JOBS}?sort=id`),
    'unknown field "sort"; expected one of state, queue, type, tag, idPrefix, parent, schedule, run, createdAfter, createdBefore, finishedAfter, finishedBefore, include, limit, cursor',
  ],
  [
    'an id of which a list takes the beginning',
    call(`${JOBS}?idPrefix=0193`),
    'idPrefix: expected an id, or at least its first 6 characters, got "0193"',
  ],
  [
    'a cursor of another list',
    call(`${JOBS}?cursor=abc`),
    'cursor: expected the nextCursor of a list with the same filters, got "abc"',
  ],
  [
    'a wait in words',
    call(`${JOBS}/${ID}/result?wait=forever`),
    'wait: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "forever"',
  ],
  [
    'a worker that is not there',
    call(`/api/v1/workers/${ID}/pause`, { method: 'POST' }),
    () => `there is no live worker with the id ${ID}`,
  ],
]);

describeMistakes('schedules', [
  ['no time at all', schedule({}), 'specs: expected one of cron, every, at and specs, got none'],
  [
    'a cron pattern of 4 fields',
    schedule({ cron: '0 2 * *' }),
    'specs[0].cron: expected 5 fields, or 6 with seconds first, got 4 in "0 2 * *"',
  ],
  [
    'a minute out of range',
    schedule({ cron: '75 2 * * *' }),
    'specs[0].cron: minute: expected a number from 0 to 59, got 75 in "75 2 * * *"',
  ],
  [
    'a misspelt day',
    schedule({ cron: '0 2 * * monday' }),
    'specs[0].cron: day of week: expected a number from 0 to 7 or a name such as MON, got MONDAY in "0 2 * * monday"',
  ],
  [
    'an unknown time zone',
    schedule({ cron: '@daily', timeZone: 'Berlin' }),
    'timeZone: expected an IANA time zone such as "Europe/Berlin" or "UTC", got "Berlin"',
  ],
  [
    'a pattern that never fires',
    schedule({ cron: '0 0 30 2 *' }),
    'specs[0].cron: expected a date that exists; this one never comes, got "0 0 30 2 *"',
  ],
  [
    'a calendar that is not there',
    schedule({ cron: '@daily', exclude: { calendars: ['holidays'] } }),
    'there is no calendar holidays',
  ],
  ['a schedule that is not there', call('/api/v1/schedules/nightly'), 'there is no schedule nightly'],
]);
