/** Jobs that are added by the name of their type: what the registered definition refuses, and what is warned of. */
import { type Client, createClient, defineJob, defineSchedule, type Logger } from '@drover/sdk';
import { createWorker, type Worker } from '@drover/sdk/worker';
import { afterAll, beforeAll } from 'vitest';
import { z } from 'zod';
import { type ApiBench, createApiBench } from '../../packages/server/test/api/api-bench.js';
import { drover } from '../../packages/server/test/cli/run-cli.js';
import { describeMistakes } from './support/mistakes.js';

const NOT_REGISTERED = 'no worker has registered the type "bank.wier" (did you mean "bank.wire"?)';

let bench: ApiBench;
let worker: Worker;
let client: Client;
let warned: string[] = [];
beforeAll(async () => {
  bench = await createApiBench({ beatMs: 200 });
  const url = bench.server.address;
  const wire = defineJob({
    ...{ type: 'bank.wire', onLost: 'hold', queue: 'bank', payload: z.object({ amount: z.number().positive() }) },
    run() {},
  });
  worker = createWorker({ url, jobs: [wire] });
  await worker.start();
  const logger: Logger = { debug() {}, info() {}, error() {}, warn: (_, message) => void warned.push(message) };
  client = createClient({ url, logger });
});
afterAll(async () => {
  await client?.close();
  await worker?.stop();
  await bench?.close();
});

const cli = async (...args: string[]) => (await drover([...args, '--url', bench.server.address])).stderr.trim();
/** What the client logs while it does this. */
async function warningsOf(work: () => Promise<unknown>): Promise<string> {
  warned = [];
  await work();
  return warned.join('\n');
}

describeMistakes('jobs that are added by name', [
  [
    'a payload that the type does not take',
    () => client.enqueue('bank.wire', { amount: '5' }),
    'payload.amount: expected a number, got "5" (job type "bank.wire")',
  ],
  [
    'the same, as the second of many',
    () => client.enqueueMany('bank.wire', [{ amount: 5 }, { amount: -5 }]),
    'jobs[1].payload.amount: expected a number greater than 0, got -5 (job type "bank.wire")',
  ],
  [
    'the same, on the command line',
    () => cli('job', 'add', 'bank.wire', '{"amout":5}'),
    'drover: payload.amount: expected a number, got nothing (job type "bank.wire")',
  ],
  [
    'no payload on the command line',
    () => cli('job', 'add', 'bank.wire'),
    'drover: payload: expected an object, got null (job type "bank.wire")',
  ],
  [
    'a schedule with such a payload',
    () => client.schedules.put(defineSchedule({ name: 'rent', job: 'bank.wire', payload: [], cron: '0 0 1 * *' })),
    'job.payload: expected an object, got [] (job type "bank.wire")',
  ],
  [
    'a schedule with a typo in the type',
    () => cli('schedule', 'put', 'rent', 'bank.wier', '--cron', '0 0 1 * *'),
    `drover: ${NOT_REGISTERED}; its jobs get no defaults of their type until one has, and the payload was not checked`,
  ],
  [
    'a typo in the type',
    () => warningsOf(() => client.enqueue('bank.wier', { amount: 5 })),
    `${NOT_REGISTERED}; the job got no defaults of its type, and its payload was not checked`,
  ],
  ['the same once more', () => warningsOf(() => client.enqueue('bank.wier', { amount: 5 })), ''],
  [
    'a typo in the type on the command line',
    () => cli('job', 'add', 'bank.wier', '{"amount":5}'),
    `drover: ${NOT_REGISTERED}; the job got no defaults of its type, and its payload was not checked`,
  ],
  ['a type that is not known', () => cli('types', 'show', 'bank.wier'), `drover: ${NOT_REGISTERED}`],
  [
    'forgetting a type that is in use',
    () => cli('types', 'forget', 'bank.wire'),
    'drover: cannot forget the job type bank.wire: a live worker offers it',
  ],
]);

describeMistakes('waiting for a job that no worker takes', [
  [
    'on the command line',
    async () => {
      const said = await cli('job', 'add', 'bank.wier', '1', '--wait', '--wait-timeout', '4s');
      return said
        .replaceAll(/[0-9a-f-]{36}/g, '<id>')
        .split('\n')
        .slice(1)
        .join('\n');
    },
    `drover: job <id> waits: ${NOT_REGISTERED}\ndrover: job <id> is ready after 4000 ms`,
  ],
  [
    'when the last worker of its type has left',
    async () => {
      await worker.stop();
      const { id } = await client.enqueue('bank.wire', { amount: 5 });
      const wait = () =>
        client
          .job(id)
          .result({ timeout: '4s' })
          .catch(() => 'still waiting');
      return (await warningsOf(wait)).replace(id, '<id>');
    },
    'job <id> waits: no live worker offers the type "bank.wire"',
  ],
]);
