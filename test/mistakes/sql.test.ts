/** Calls of the SQL functions that PostgreSQL refuses. */
import { afterAll, beforeAll } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { describeMistakes } from './support/mistakes.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const sql = (text: string) => () => database.pool.query(text);

describeMistakes('drover.enqueue', [
  ['no type', sql(`select drover.enqueue(null)`), 'drover: type: expected the name of a job type, got nothing'],
  [
    'a type with a space',
    sql(`select drover.enqueue('send mail')`),
    'drover: type: expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, of at most 128 characters, got "send mail"',
  ],
  [
    'options that are not an object',
    sql(`select drover.enqueue('mail', '{}', '[]')`),
    'drover: options: expected a JSON object, got []',
  ],
  [
    'an option with a wrong name',
    sql(`select drover.enqueue('mail', '{}', '{"maxAttemps": 3}')`),
    'drover: options: unknown field "maxAttemps", expected one of id, queue, priority, maxAttempts, backoff, timeout, retention, tags, onLost, onFailure, delay, runAt, expiresAt, idempotencyKey, complete',
  ],
  [
    'attempts that are not a number',
    sql(`select drover.enqueue('mail', '{}', '{"maxAttempts": "many"}')`),
    'drover: maxAttempts: expected a whole number from 1 to 1000, got "many"',
  ],
  [
    'a priority out of range',
    sql(`select drover.enqueue('mail', '{}', '{"priority": 5000}')`),
    'drover: priority: expected a whole number from -1000 to 1000, got 5000',
  ],
  [
    'a delay in words',
    sql(`select drover.enqueue('mail', '{}', '{"delay": "soon"}')`),
    'drover: delay: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "soon"',
  ],
  [
    'delay and runAt',
    sql(`select drover.enqueue('mail', '{}', '{"delay": "5s", "runAt": "2030-01-31T12:00:00Z"}')`),
    'drover: runAt: expected either delay or runAt, not both',
  ],
  [
    'a time without a zone',
    sql(`select drover.enqueue('mail', '{}', '{"runAt": "2030-01-31 12:00"}')`),
    'drover: runAt: expected a time in ISO 8601 such as "2030-01-31T12:00:00Z", got "2030-01-31 12:00"',
  ],
  [
    'an unknown back-off',
    sql(`select drover.enqueue('mail', '{}', '{"backoff": {"kind": "linear"}}')`),
    'drover: backoff.kind: expected exponential, fixed or list, got "linear"',
  ],
  [
    'a queue with a space',
    sql(`select drover.enqueue('mail', '{}', '{"queue": "to do"}')`),
    'drover: queue: expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, of at most 128 characters, got "to do"',
  ],
  [
    'an id that is not a UUID',
    sql(`select drover.enqueue('mail', '{}', '{"id": "order-4711"}')`),
    'drover: id: expected a UUID (idempotencyKey takes any text), got "order-4711"',
  ],
]);

describeMistakes('drover.enqueue_many', [
  [
    'an object instead of a list',
    sql(`select drover.enqueue_many('{}')`),
    'drover: jobs: expected an array of at most 10000 jobs, got {}',
  ],
  [
    'a job without a type',
    sql(`select drover.enqueue_many('[{"type": "mail"}, {"payload": 1}]')`),
    'drover: jobs[1]: type: expected the name of a job type, got nothing',
  ],
  [
    'a wrong option of one job',
    sql(`select drover.enqueue_many('[{"type": "mail", "onLost": "retry"}]')`),
    'drover: jobs[0]: onLost: expected rerun or hold, got "retry"',
  ],
]);
