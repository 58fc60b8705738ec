/** The JSON that a definition in code becomes. */
import { graphOf, newWorkflowSchema } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { and, defineJob, defineWorkflow, each, eq, exists, gt, isIn, not, or, type Value } from '../../src/index.js';

const fetchSite = defineJob<{ url: string }, { pages: { url: string; words: number }[] }>({
  type: 'site.fetch',
  queue: 'net',
  timeout: '1m',
});
const parsePage = defineJob<{ page: unknown; place?: number }, { words: number; kind: 'text' | 'image' }>({
  type: 'page.parse',
});
const makeReport = defineJob<unknown, { total: number }>({ type: 'report.make' });
const clean = defineJob<unknown>({ type: 'clean' });

const COMPLETE = { complete: true, options: {} };
const stepsOf = ({ definition }: { definition: { steps: object } }) => definition.steps;

describe('a workflow in code is the same as its JSON', () => {
  const crawl = defineWorkflow(
    {
      name: 'crawl',
      input: z.object({ url: z.string(), deep: z.boolean().optional() }),
      timeout: '1h',
      failFast: false,
    },
    ({ input, run, error, step, map, first, onFailure, finally: atEnd }) => {
      const site = step('fetch', fetchSite, { url: input.url }, { maxAttempts: 5 }).undo(clean, { run: run.id });
      const parsed = map('parse', site.output.pages, parsePage, (page, place) => ({ page: page.url, place }), {
        concurrency: 50,
        tolerate: '1%',
        if: gt(site.output.pages.length, 0),
      });
      const deep = step('deep', makeReport, { words: each(parsed.output).words }, { if: eq(input.deep, true) });
      const flat = step('flat', makeReport, [1, 'a', null], { after: [parsed, { step: deep, on: 'always' }] });
      const report = first('report', [deep, flat]);
      onFailure(clean, { failed: error.step }, { priority: 5 });
      atEnd(clean);
      return { total: report.output.total, pages: site.output.pages };
    },
  );

  it('with the options of its jobs, which are complete', () => {
    expect(crawl.definition).toEqual({
      steps: {
        fetch: {
          ...{ type: 'site.fetch', complete: true, input: { url: { $: 'input.url' } } },
          options: { queue: 'net', timeout: 60_000, maxAttempts: 5 },
          undo: { type: 'clean', ...COMPLETE, input: { run: { $: 'run.id' } } },
        },
        parse: {
          ...{ type: 'page.parse', ...COMPLETE, over: { $: 'fetch.output.pages' } },
          input: { page: { $: 'item.url' }, place: { $: 'index' } },
          ...{ concurrency: 50, tolerate: '1%', if: { gt: [{ $: 'fetch.output.pages.length' }, 0] } },
        },
        deep: {
          ...{ type: 'report.make', ...COMPLETE, input: { words: { $: 'parse.output.*.words' } } },
          if: { eq: [{ $: 'input.deep' }, true] },
        },
        flat: {
          ...{ type: 'report.make', ...COMPLETE, input: [1, 'a', null] },
          after: ['parse', { step: 'deep', on: 'always' }],
        },
        report: { first: ['deep', 'flat'] },
      },
      output: { total: { $: 'report.output.total' }, pages: { $: 'fetch.output.pages' } },
      onFailure: { type: 'clean', complete: true, options: { priority: 5 }, input: { failed: { $: 'error.step' } } },
      finally: { type: 'clean', ...COMPLETE },
      timeout: '1h',
      failFast: false,
    });
  });

  it('which the server takes, with the edges that follow from references', () => {
    const { edges } = graphOf(newWorkflowSchema.parse(crawl.definition));
    expect(edges.map(({ parent, child, on }) => `${parent} ${on} ${child}`)).toEqual([
      'fetch success parse',
      'parse success deep',
      'parse success flat',
      'deep always flat',
      'deep success report',
      'flat success report',
    ]);
  });
});

it('conditions are combined as data', () => {
  const made = defineWorkflow<{ total: number; country: string; note?: string }>(
    { name: 'conditional' },
    ({ input, step }) => {
      step('one', clean, null, {
        if: and(or(gt(input.total, 100), isIn(input.country, ['DE', 'AT'])), not(exists(input.note))),
      });
    },
  );
  expect(stepsOf(made)).toMatchObject({
    one: {
      if: {
        and: [
          { or: [{ gt: [{ $: 'input.total' }, 100] }, { in: [{ $: 'input.country' }, ['DE', 'AT']] }] },
          { not: { exists: { $: 'input.note' } } },
        ],
      },
    },
  });
});

it('a step or a map may be another workflow', () => {
  const inner = defineWorkflow<{ url: string }, { total: Value<number> }>({ name: 'inner' }, ({ step, input }) => ({
    total: step('one', makeReport, input).output.total,
  }));
  const outer = defineWorkflow<{ urls: string[] }>({ name: 'outer' }, ({ input, step, map }) => {
    const all = map('all', input.urls, inner, (url) => ({ url }), { concurrency: 2 });
    step('last', inner, { url: 'x' }, { after: all });
  });
  expect(stepsOf(outer)).toEqual({
    all: { workflow: 'inner', over: { $: 'input.urls' }, input: { url: { $: 'item' } }, concurrency: 2 },
    last: { workflow: 'inner', input: { url: 'x' }, after: ['all'] },
  });
});

it('keys with dots, and values that look like references, are what they are', () => {
  const made = defineWorkflow<{ 'a.b': { length: number } }>({ name: 'odd' }, ({ input, step }) => {
    step('one', makeReport, { key: input['a.b'].length, same: { $: 'input' }, at: new Date(0) });
  });
  expect(stepsOf(made)).toMatchObject({
    one: {
      input: {
        key: { $: ['input', 'a.b', 'length'] },
        same: { $literal: { $: 'input' } },
        at: '1970-01-01T00:00:00.000Z',
      },
    },
  });
});
