/** What the compiler infers of workflows and what it refuses; `npm run types` checks this file, vitest only that it loads. */
import { expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import {
  createClient,
  defineJob,
  defineWorkflow,
  each,
  eq,
  gt,
  isIn,
  type RunHandle,
  type WorkflowDefinition,
} from '../src/index.js';

const fetchSite = defineJob({
  type: 'site.fetch',
  payload: z.object({ url: z.string() }),
  run: async ({ payload }) => ({ pages: [payload.url], at: new Date(), title: undefined as string | undefined }),
});
const parsePage = defineJob<{ page: string; place?: number }, { words: number }>({ type: 'page.parse' });
const makeReport = defineJob<{ words: number[] }, { total: number; kind: 'long' | 'short' }>({ type: 'report.make' });
const patient = defineJob<{ total: number | null }, string>({ type: 'patient' });
const ping = defineJob<undefined>({ type: 'ping' });

const crawl = defineWorkflow(
  { name: 'crawl', input: z.object({ url: z.string(), deep: z.boolean().optional() }) },
  ({ input, step, map, run, onFailure, finally: atEnd }) => {
    const site = step('fetch', fetchSite, { url: input.url });
    const parsed = map('parse', site.output.pages, parsePage, (page, place) => ({ page, place }));
    const report = step(
      'report',
      makeReport,
      { words: each(parsed.output).words },
      { if: gt(site.output.pages.length, 0) },
    );
    onFailure(patient, { total: report.output.total });
    atEnd(ping);
    step('ping', ping, undefined, { after: report, if: eq(run.id, site.output.title) });
    return { total: report.output.total, at: site.output.at, title: site.output.title, fixed: 'text', list: [1] };
  },
);

it('types of a workflow are inferred from its steps', () => {
  expectTypeOf(crawl).toEqualTypeOf<
    WorkflowDefinition<
      { url: string; deep?: boolean | undefined },
      { total: number | null; at: string; title: string | null; fixed: string; list: number[] }
    >
  >();
  const nothing = defineWorkflow({ name: 'nothing' }, ({ step }) => {
    step('one', ping);
  });
  expectTypeOf(nothing).toEqualTypeOf<WorkflowDefinition<unknown, null>>();
  defineWorkflow({ name: 'outer' }, ({ step, map, first }) => {
    const inner = step('inner', crawl, { url: 'a' });
    map('lenient', inner.output.list, crawl, () => ({ url: 'b' }), { tolerate: 1 });
    const soft = step('soft', makeReport, { words: inner.output.list }, { continueOnFailure: true });
    step('patient', patient, { total: soft.output.total });
    return first('one-of', [step('a', patient, { total: 1 }), step('b', patient, { total: null })])
      .output satisfies object;
  });
});

/** Compiled, never called: nothing here must reach a server. */
export async function started(): Promise<void> {
  const client = createClient();
  const run = await client.start(crawl, { url: 'a' }, { timeout: '1h' });
  expectTypeOf(run).toEqualTypeOf<
    RunHandle<{ total: number | null; at: string; title: string | null; fixed: string; list: number[] }>
  >();
  expectTypeOf(await client.start('by-name', { any: 'thing' })).toEqualTypeOf<RunHandle<unknown>>();
  expectTypeOf(client.run(crawl, 'id')).toEqualTypeOf<typeof run>();
  // @ts-expect-error an input of the wrong type
  await client.start(crawl, { url: 5 });
  // @ts-expect-error no input
  await client.start(crawl);
  // @ts-expect-error an unknown option
  await client.start(crawl, { url: 'a' }, { prioriti: 1 });
  // @ts-expect-error no workflow
  await client.start(fetchSite, { url: 'a' });
}

/** Each line breaks a promise of the types, and must not compile. */
export function refused(): void {
  defineWorkflow(
    { name: 'refused', input: z.object({ url: z.string(), kind: z.enum(['a', 'b']).optional() }) },
    ({ input, step, map }) => {
      const site = step('fetch', fetchSite, { url: input.url });
      // @ts-expect-error a field that the output does not have
      step('a', fetchSite, { url: site.output.url });
      // @ts-expect-error a reference to a value of another type
      step('b', makeReport, { words: site.output.pages });
      // @ts-expect-error a value that may be absent
      step('c', fetchSite, { url: site.output.title });
      // @ts-expect-error a value of the wrong type
      step('d', fetchSite, { url: 5 });
      // @ts-expect-error no input
      step('e', fetchSite);
      // @ts-expect-error an unknown option
      step('f', ping, undefined, { prioriti: 1 });
      // @ts-expect-error a map over what is no list
      map('g', site.output, parsePage, () => ({ page: 'x' }));
      // @ts-expect-error an item of another type
      map('h', site.output.pages, parsePage, (_page, place) => ({ page: place }));
      // @ts-expect-error a comparison with a value of another type
      step('i', ping, undefined, { if: gt(site.output.pages.length, 'many') });
      // @ts-expect-error a comparison with a value that it never has
      step('j', ping, undefined, { if: isIn(input.kind, ['c']) });
      // @ts-expect-error no condition
      step('k', ping, undefined, { if: true });
      // @ts-expect-error the name of a step in the place of the step
      step('l', ping, undefined, { after: 'fetch' });
      // @ts-expect-error a job by its name, of which no type is known
      step('m', 'site.fetch', {});
      // @ts-expect-error options of jobs for a run of a workflow
      step('n', crawl, { url: 'a' }, { queue: 'q' });
      // @ts-expect-error the input of the workflow has another type
      step('o', crawl, { url: site.output.pages });
      // @ts-expect-error an undo with an input of another type
      site.undo(makeReport, { words: site.output.at });
    },
  );
}
