/** Definitions of jobs, and options of an enqueue, that the SDK refuses. */
import { createClient, defineJob, handle, RetryAfter } from '@drover/sdk';
import { describeMistakes } from './support/mistakes.js';

const echo = defineJob({ type: 'echo' });
/** Nothing listens there: these mistakes are found before anything is sent. */
const client = createClient({ url: 'http://127.0.0.1:9' });

describeMistakes('defining jobs', [
  ['no type', () => defineJob({} as never), 'defineJob: type: expected a string, got nothing'],
  [
    'a type with a space',
    () => defineJob({ type: 'send mail' }),
    'defineJob: type: expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, got "send mail"',
  ],
  [
    'an option with a wrong name',
    () => defineJob({ type: 'echo', maxAttemps: 3 } as never),
    'defineJob: unknown option "maxAttemps"; did you mean "maxAttempts"?',
  ],
  [
    'a back-off of an unknown kind',
    () => defineJob({ type: 'echo', backoff: { kind: 'linear', delay: '5s' } as never }),
    'defineJob: backoff.kind: expected "exponential", "fixed" or "list", got "linear"',
  ],
  [
    'a back-off as a string',
    () => defineJob({ type: 'echo', backoff: 'fixed' as never }),
    'defineJob: backoff: expected an object, got "fixed"',
  ],
  [
    'a timeout with an unknown unit',
    () => defineJob({ type: 'echo', timeout: '5 minutes' as never }),
    'defineJob: timeout: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "5 minutes"',
  ],
  [
    'no attempts',
    () => defineJob({ type: 'echo', maxAttempts: 0 }),
    'defineJob: maxAttempts: expected at least 1, got 0',
  ],
  [
    'an unknown loss policy',
    () => defineJob({ type: 'echo', onLost: 'retry' as never }),
    'defineJob: onLost: expected one of "rerun", "hold", got "retry"',
  ],
  [
    'a type as payload',
    () => defineJob({ type: 'echo', payload: { to: 'string' } as never }),
    'defineJob: payload: expected a Standard Schema (zod, valibot, arktype, …), got an object',
  ],
  [
    'a handler that is not a function',
    () => defineJob({ type: 'echo', run: 'send' as never }),
    'defineJob: run: expected a function, got "send"',
  ],
  [
    'the module of a handler as a relative path',
    () => handle(defineJob({ type: 'echo' }), () => {}, { module: './echo.js' }),
    'handle: module: expected the address of a file: import.meta.url, or __filename in CommonJS, got "./echo.js"',
  ],
  [
    'handle with a type instead of a definition',
    () => handle('echo' as never, () => {}),
    'handle: definition: expected the return value of defineJob, got "echo"',
  ],
  [
    'handle without a function',
    () => handle(echo, undefined as never),
    'handle: run: expected a function, got undefined',
  ],
  [
    'onFailure of a handler whose definition does not name it',
    () => handle(echo, () => {}, { onFailure: () => {} }),
    'handle: onFailure: expected a definition that names the job of this function: defineJob({ type: "echo", onFailure: "echo/on-failure" }), got a function',
  ],
  [
    'onFailure as a list',
    () => defineJob({ type: 'echo', onFailure: ['echo/failed'] as never }),
    'defineJob: onFailure: expected a string, got ["echo/failed"]',
  ],
  [
    'a memory limit without a unit',
    () => defineJob({ type: 'echo', isolation: { kind: 'process', memory: '512' as never } }),
    'defineJob: isolation.memory: expected a size such as "512MiB" or "2GiB", or bytes, from 128MiB to 1024GiB, got "512"',
  ],
  [
    'a delay in words',
    () => new RetryAfter('soon' as never),
    'RetryAfter: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got soon',
  ],
]);

describeMistakes('enqueueing', [
  [
    'a handler instead of a definition',
    () => client.enqueue((() => {}) as never),
    'enqueue: type: expected the return value of defineJob, or a name of letters, digits and _ . : / @ -, got a function',
  ],
  [
    'an option with a wrong name',
    () => client.enqueue(echo, null, { retries: 3 } as never),
    'enqueue: unknown option "retries"; expected one of queue, priority, delay, runAt, maxAttempts, backoff, timeout, expiresAt, retention, tags, onLost, onFailure, idempotencyKey, id',
  ],
  [
    'delay and runAt',
    () => client.enqueue(echo, null, { delay: '5s', runAt: '2030-01-31T12:00:00Z' }),
    'runAt: expected either delay or runAt, not both, got "2030-01-31T12:00:00Z"',
  ],
  [
    'a time without a zone',
    () => client.enqueue(echo, null, { runAt: '2030-01-31 12:00' }),
    'runAt: expected a time in ISO 8601 such as "2030-01-31T12:00:00Z", got "2030-01-31 12:00"',
  ],
  [
    'an id that is not a UUID',
    () => client.enqueue(echo, null, { id: 'order-4711' }),
    'id: expected a UUID (idempotencyKey takes any text), got "order-4711"',
  ],
  [
    'an id and an idempotency key',
    () => {
      const id = '0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c';
      return client.enqueue('order.confirm', null, { id, idempotencyKey: 'order-4711' });
    },
    'enqueue: id: expected no id beside idempotencyKey, which makes it ff1f0fc1-9776-808d-b2c8-ba8b6dbcca35, got "0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c"',
  ],
  [
    'a number as idempotency key',
    () => client.enqueue(echo, null, { idempotencyKey: 4711 as never }),
    'idempotencyKey: expected a string, got 4711',
  ],
]);
