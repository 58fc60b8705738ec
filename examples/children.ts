/** A job that adds others. They come into existence with its success, so a retry never adds them twice. */
import { createClient, defineJob } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { z } from 'zod';

const resize = defineJob({
  type: 'children.resize',
  payload: z.object({ file: z.string(), width: z.number() }),
  run: async ({ payload }) => `${payload.file} at ${payload.width}`,
});
const album = defineJob({
  type: 'children.album',
  payload: z.object({ files: z.array(z.string()) }),
  backoff: { kind: 'fixed', delay: '50ms' },
  run: async ({ payload, enqueue, attempt }) => {
    const ids = payload.files.map((file) => enqueue(resize, { file, width: 200 }).id);
    if (attempt === 1) throw new Error('fails after its children were added: none of them exists');
    return ids;
  },
});

const drover = createClient();
const worker = createWorker({ jobs: [resize, album] });
await worker.start();

const job = await drover.enqueue(album, { files: ['a.png', 'b.png', 'c.png'] });
const children = await job.result({ timeout: '30s' });
const resized = await Promise.all(children.map((id) => drover.job(resize, id).result({ timeout: '30s' })));
console.log(`resized: ${resized.join(', ')}`);

await drover.close();
await worker.stop();
