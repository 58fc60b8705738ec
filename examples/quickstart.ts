/** Define a job, run a worker for it, add one, and wait for its result. */
import { createClient, defineJob } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { z } from 'zod';

const greet = defineJob({
  type: 'quickstart.greet',
  payload: z.object({ name: z.string() }),
  run: async ({ payload }) => ({ greeting: `Hello, ${payload.name}` }),
});

const drover = createClient();
const worker = createWorker({ jobs: [greet] });
await worker.start();

const job = await drover.enqueue(greet, { name: 'world' });
console.log((await job.result({ timeout: '30s' })).greeting);

await drover.close();
await worker.stop();
