/** Addresses and tokens of clients, and workers that cannot start. */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { createClient, defineJob, handle } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { afterAll, beforeAll } from 'vitest';
import { describeMistakes } from './support/mistakes.js';

const echo = handle(defineJob({ type: 'echo' }), () => {});

/** Answers everything as a plain HTTP server answers a TLS handshake. */
let plain: Server;
const plainUrl = () => `https://127.0.0.1:${(plain.address() as AddressInfo).port}`;
beforeAll(async () => {
  plain = createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
});
afterAll(() => plain.close());

/** The message while an environment variable is set. */
function withVariable(name: string, value: string, make: () => unknown): () => unknown {
  return () => {
    const before = process.env[name];
    process.env[name] = value;
    try {
      return make();
    } finally {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    }
  };
}

describeMistakes('addresses and tokens', [
  [
    'an address without a scheme',
    () => createClient({ url: 'drover.internal:8420' }),
    'url: expected an address such as "http://127.0.0.1:8420", got "drover.internal:8420"',
  ],
  [
    'an address of PostgreSQL in DROVER_URL',
    withVariable('DROVER_URL', 'postgres://db:5432/drover', () => createClient()),
    'DROVER_URL: expected an address such as "http://127.0.0.1:8420", got "postgres://db:5432/drover"',
  ],
  [
    'an empty DROVER_URL',
    withVariable('DROVER_URL', '', () => createClient()),
    'DROVER_URL: expected an address such as "http://127.0.0.1:8420", got ""',
  ],
  [
    'a token with a line break inside',
    () => createClient({ token: 'abc\ndef' }),
    'token: expected letters, digits and signs, without spaces and commas; see character 4',
  ],
  [
    'a token with a space in DROVER_TOKEN',
    withVariable('DROVER_TOKEN', 'Bearer abc', () => createWorker({ jobs: [echo] })),
    'DROVER_TOKEN: expected letters, digits and signs, without spaces and commas; see character 7',
  ],
  [
    'https to a server without TLS',
    () => createClient({ url: plainUrl() }).stats(),
    () => `no answer from ${plainUrl()}: the server does not use TLS; give its address as http://…`,
  ],
  [
    'a server that does not run',
    () => createClient({ url: 'http://127.0.0.1:9', retries: 0 }).stats(),
    'no answer from http://127.0.0.1:9: connection refused; check that a server runs at this address',
  ],
  [
    'a timeout without a unit',
    () => createClient({ timeout: '30' as never }),
    'createClient: timeout: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "30"',
  ],
]);

describeMistakes('workers', [
  [
    'no jobs',
    () => createWorker({ jobs: [] }),
    'createWorker: jobs: expected at least one job with a handler, got an empty list',
  ],
  [
    'jobs under another name',
    () => createWorker({ handlers: [echo] } as never),
    'createWorker: unknown option "handlers"; expected one of jobs, url, token, ca, cert, key, slots, queues, name, prefetch, drainTimeout, onLeaseLost, journalDir, discardDamagedJournal, ignorePause, logger',
  ],
  [
    'a module instead of a list',
    () => createWorker({ jobs: { echo } as never }),
    'createWorker: jobs: expected a list of jobs with handlers, got an object',
  ],
  [
    'a definition without a handler',
    () => createWorker({ jobs: [echo, defineJob({ type: 'mail.send' })] as never }),
    'createWorker: jobs[1]: expected a job with a handler: defineJob with run, or handle(definition, run), got the definition of "mail.send" without a handler',
  ],
  [
    'a function as a job',
    () => createWorker({ jobs: [() => {}] as never }),
    'createWorker: jobs[0]: expected a job with a handler: defineJob with run, or handle(definition, run), got a function',
  ],
  [
    'two handlers for one type',
    () => createWorker({ jobs: [echo, echo] }),
    'createWorker: jobs: expected one handler for each job type, got two for "echo"',
  ],
  [
    'more slots than a worker may have',
    () => createWorker({ jobs: [echo], slots: 100_000 }),
    'createWorker: slots: expected a whole number from 1 to 10000, got 100000',
  ],
  [
    'an isolated job without its module',
    () => createWorker({ jobs: [defineJob({ type: 'render', isolation: 'process', run: () => {} })] }),
    'createWorker: jobs[0].module: expected the option module of the isolated job "render": import.meta.url, or __filename in CommonJS, got undefined',
  ],
  [
    'a queue with a space',
    () => createWorker({ jobs: [echo], queues: ['to do'] }),
    'createWorker: queues[0]: expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, got "to do"',
  ],
  [
    'a journal without a folder',
    () => createWorker({ jobs: [echo], journalDir: '' }),
    'createWorker: journalDir: expected the path of a folder, got ""',
  ],
]);
