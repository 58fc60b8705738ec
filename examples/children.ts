/** A job that adds others. They become real together with its success, so a retry never adds them twice. */
import { createClient, defineJob } from '@drover/sdk';
import { createWorker, handle } from '@drover/sdk/worker';
import { z } from 'zod';

const resize = defineJob({ type: 'children.resize', payload: z.object({ file: z.string(), width: z.number() }) });
const album = defineJob({
  type: 'children.album',
  payload: z.object({ files: z.array(z.string()) }),
  result: z.array(z.string()),
  backoff: { kind: 'fixed', delay: '50ms' },
});

const client = createClient();
const worker = createWorker({
  selfDestruct: true,
  handlers: [
    handle(resize, async ({ payload }) => `${payload.file} at ${payload.width}`),
    handle(album, async ({ payload, enqueue, attempt }) => {
      const ids = payload.files.map((file) => enqueue(resize, { file, width: 200 }).id);
      if (attempt === 1) throw new Error('fails after its children were added: none of them exists');
      return ids;
    }),
  ],
});
await worker.start();

const job = await client.enqueue(album, { files: ['a.png', 'b.png', 'c.png'] });
const children = await client.result(job, { timeout: '30s' });
const resized = await Promise.all(children.map((id) => client.result(id, { timeout: '30s' })));
console.log(`resized: ${resized.join(', ')}`);

await client.close();
await worker.stop();
