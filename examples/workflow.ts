/** A workflow: a list is made, each of its items is a job of its own, and the results come together. */
import { createClient, defineJob, defineWorkflow, each, gt } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { z } from 'zod';

const list = defineJob({
  type: 'workflow.list',
  payload: z.object({ site: z.string() }),
  run: async ({ payload }) => ({ pages: ['/', '/about', '/prices'].map((path) => payload.site + path) }),
});
const count = defineJob({
  type: 'workflow.count',
  payload: z.object({ page: z.string() }),
  run: async ({ payload }) => ({ page: payload.page, letters: payload.page.length }),
});
const report = defineJob({
  type: 'workflow.report',
  payload: z.object({ letters: z.array(z.number()) }),
  run: async ({ payload, run }) => ({ total: payload.letters.reduce((sum, one) => sum + one, 0), step: run?.step }),
});
const praise = defineJob({
  type: 'workflow.praise',
  payload: z.object({ total: z.number() }),
  run: async () => 'long',
});

const letters = defineWorkflow({ name: 'letters', input: z.object({ site: z.string() }) }, ({ input, step, map }) => {
  const listed = step('list', list, { site: input.site });
  const counted = map('count', listed.output.pages, count, (page) => ({ page }), { concurrency: 2 });
  const made = step('report', report, { letters: each(counted.output).letters });
  const praised = step('praise', praise, { total: made.output.total }, { if: gt(made.output.total, 1000) });
  return { total: made.output.total, step: made.output.step, praise: praised.output };
});

const drover = createClient();
const worker = createWorker({ jobs: [list, count, report, praise] });
await worker.start();

const run = await drover.start(letters, { site: 'example.com' });
const { total, step, praise: praised } = await run.result({ timeout: '30s' });
console.log(`${total} letters by ${step}, praise: ${praised}`);

await drover.close();
await worker.stop();
