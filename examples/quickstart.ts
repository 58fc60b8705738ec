/** Define a job, run a worker for it, add one, and wait for its result. */
import { createClient, defineJob } from '@drover/sdk';
import { createWorker, handle } from '@drover/sdk/worker';
import { z } from 'zod';

const greet = defineJob({
  type: 'quickstart.greet',
  payload: z.object({ name: z.string() }),
  result: z.object({ greeting: z.string() }),
});

const worker = createWorker({
  selfDestruct: true,
  handlers: [handle(greet, async ({ payload }) => ({ greeting: `Hello, ${payload.name}` }))],
});
await worker.start();

const client = createClient();
const job = await client.enqueue(greet, { name: 'world' });
const { greeting } = await client.result(job, { timeout: '30s' });
console.log(greeting);

await client.close();
await worker.stop();
