/** The SQL that moves runs, on graphs written by hand. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancelJobs } from '../../src/lifecycle/cancel.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import { failJobs } from '../../src/lifecycle/fail.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

type Source = [source: string, node: number | null, ...path: string[]];
type Template = { texts: string[]; sources?: Source[] };
type Node = {
  after?: (number | [number, 'success' | 'failure' | 'always'])[];
  role?: string;
  kind?: string;
  target?: string;
  undoes?: number;
  input?: Template;
  over?: Template;
  concurrency?: number;
  tolerated?: number;
  continues?: boolean;
  condition?: string;
  conditionInput?: Template;
};
type Graph = { failsFast?: boolean; output?: Template; nodes: Node[] };

function template(given: Template | undefined): string | null {
  if (!given) return null;
  const quote = (text: string) => `"${text.replace(/(["\\])/g, '\\$1')}"`;
  const array = (items: string[]) => `{${items.map(quote).join(',')}}`;
  const sources = given.sources?.map(([source, node, ...path]) => `(${source},${node ?? ''},${quote(array(path))})`);
  return `(${quote(array(given.texts))},${sources ? quote(array(sources)) : ''})`;
}

async function define({ failsFast = true, output, nodes }: Graph, name = `w-${newId()}`): Promise<number> {
  const { rows } = await bench.pool.query(
    `insert into drover.workflow (name, version, hash, definition, fails_fast, output)
     values ($1, 1, 'h', '{}', $2, $3) returning id`,
    [name, failsFast, template(output)],
  );
  const id = rows[0].id;
  for (const [n, node] of nodes.entries()) {
    const kind = node.kind ?? 'job';
    await bench.pool.query(
      `insert into drover.node (workflow_id, n, name, role, kind, undoes, target, queue, options, input, over, concurrency,
         tolerated, in_degree, continues_on_failure, condition, condition_input)
       values ($1, $2, $3, $4, $5, $6, $7, 'default', $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
      [
        ...[
          id,
          n,
          `s${n}`,
          node.role ?? 'step',
          kind,
          node.undoes,
          kind === 'first' ? null : (node.target ?? `${name}.${n}`),
        ],
        ...[`"step":"s${n}","node":${n}`, template(node.input), template(node.over), node.concurrency, node.tolerated],
        ...[node.after?.length ?? 0, node.continues ?? false, node.condition, template(node.conditionInput)],
      ],
    );
  }
  for (const [n, { after = [] }] of nodes.entries()) {
    for (const edge of after) {
      const [parent, on] = typeof edge === 'number' ? [edge, 'success'] : edge;
      await bench.pool.query('insert into drover.edge values ($1, $2, $3, $4)', [id, parent, n, on]);
    }
  }
  return id;
}

async function start(workflowId: number, input: unknown = null): Promise<string> {
  const id = newId();
  await bench.pool.query('select drover.start_runs($1, $2, $3, null, null, null)', [
    [id],
    [workflowId],
    [JSON.stringify(input)],
  ]);
  return id;
}

type Row = { id: string; node: number; item: number | null; state: string; payload: unknown; type: string };
async function jobsOf(run: string): Promise<Row[]> {
  const { rows } = await bench.pool.query(
    `select id, node, item, state::text, payload, type from drover.job where run_id = $1 order by node, item`,
    [run],
  );
  return rows;
}
const nodesOf = async (run: string) => (await jobsOf(run)).map(({ node }) => node);

async function runOf(id: string) {
  const { rows } = await bench.pool.query('select * from drover.run where id = $1', [id]);
  return rows[0];
}

/** Runs the jobs of these runs that are ready, once each; or only those of one node. */
async function step(
  runs: string | string[],
  outcome: (job: Row) => unknown = () => null,
  only?: number,
): Promise<void> {
  const jobs = (await Promise.all([runs].flat().map(jobsOf))).flat().filter(({ node }) => node === (only ?? node));
  if (jobs.length === 0) return;
  const claimed = await bench.claim(jobs.length, { types: [...new Set(jobs.map(({ type }) => type))] });
  const done = [];
  for (const { id, fence } of claimed) {
    const result = outcome(jobs.find((job) => job.id === id) as Row);
    if (result instanceof Error) {
      const error = { name: 'Error', message: result.message };
      await failJobs(bench.db.control, SERVER_ID, [{ id, fence, runMs: 1, error }]);
    } else done.push({ id, fence, runMs: 1, result: JSON.stringify(result) });
  }
  if (done.length > 0) await completeJobs(bench.db.control, SERVER_ID, done);
}

const fails =
  (...nodes: number[]) =>
  (job: Row) =>
    nodes.includes(job.node) ? new Error(`no ${job.node}`) : job.node;

describe('a run', () => {
  test('of a chain starts each step when the one before has succeeded, and succeeds with the last', async () => {
    const run = await start(await define({ nodes: [{}, { after: [0] }, { after: [1] }] }));
    for (const node of [0, 1, 2]) {
      expect(await nodesOf(run)).toEqual([node]);
      expect(await runOf(run)).toMatchObject({ state: 'running', open: 1 });
      await step(run);
    }
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', open: 0, error: null });
  });

  test('of a diamond joins once, after both branches', async () => {
    const run = await start(await define({ nodes: [{}, { after: [0] }, { after: [0] }, { after: [1, 2] }] }));
    await step(run);
    expect(await nodesOf(run)).toEqual([1, 2]);
    await step(run);
    expect(await nodesOf(run)).toEqual([3]);
    await step(run);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded' });
  });

  test('passes values on, and gives its output', async () => {
    const run = await start(
      await define({
        output: {
          texts: ['{"sum":', ',"from":', '}'],
          sources: [
            ['step', 1],
            ['input', null, 'who'],
          ],
        },
        nodes: [
          { input: { texts: ['{"who":', '}'], sources: [['input', null, 'who']] } },
          {
            after: [0],
            input: {
              texts: ['[', ',', ',', ']'],
              sources: [
                ['step', 0, 'list', '1'],
                ['step', 0, 'list', 'length'],
                ['step', 0, 'none'],
              ],
            },
          },
        ],
      }),
      { who: 'a "quoted" name' },
    );
    expect((await jobsOf(run))[0]?.payload).toEqual({ who: 'a "quoted" name' });
    await step(run, () => ({ list: [4, 5, 6] }));
    expect((await jobsOf(run))[0]?.payload).toEqual([5, 3, null]);
    await step(run, () => 15);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: { sum: 15, from: 'a "quoted" name' } });
  });

  test('fails with the first failure, stops what runs beside it, and skips what comes after', async () => {
    const run = await start(await define({ nodes: [{}, {}, { after: [0] }, { after: [1] }] }));
    const [, other] = await jobsOf(run);
    await step(run, fails(0), 0);
    expect(await runOf(run)).toMatchObject({ state: 'running', ending: 'failed', open: 1, error: { step: 's0' } });
    expect((await runOf(run)).stopped_at).not.toBeNull();
    await cancelJobs(bench.db.control, SERVER_ID, [other?.id as string]);
    expect(await runOf(run)).toMatchObject({ state: 'failed', error: { step: 's0', error: { message: 'no 0' } } });
    expect(await jobsOf(run)).toEqual([]);
  });

  test('continues where a failure edge, always, or continueOnFailure leads', async () => {
    const run = await start(
      await define({
        nodes: [
          {},
          { after: [[0, 'failure']] },
          { after: [[0, 'always']] },
          { after: [0] },
          { after: [[3, 'always']] },
          { continues: true },
          { after: [5] },
        ],
      }),
    );
    await step(run, fails(0, 5));
    expect(await nodesOf(run)).toEqual([1, 2, 4, 6]);
    await step(run);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', error: null });
  });

  test('merges branches by first, and takes the output of the one that was met', async () => {
    const run = await start(
      await define({
        output: { texts: ['', ''], sources: [['step', 3]] },
        nodes: [{}, { after: [0] }, { after: [[0, 'failure']] }, { kind: 'first', after: [1, 2] }, { after: [3] }],
      }),
    );
    await step(run, fails(0));
    await step(run, () => 'rescued');
    expect(await nodesOf(run)).toEqual([4]);
    await step(run);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: 'rescued' });
  });

  test('skips a step whose condition does not hold, and what depends on it', async () => {
    const conditionInput: Template = { texts: ['[', ']'], sources: [['input', null, 'total']] };
    const id = await define({
      nodes: [
        { condition: '$[0] >= 100', conditionInput },
        { after: [0] },
        { condition: '$[0] < 100', conditionInput },
      ],
    });
    const [big, small, absent] = [await start(id, { total: 100 }), await start(id, { total: 7 }), await start(id, {})];
    expect(await nodesOf(big)).toEqual([0]);
    expect(await nodesOf(small)).toEqual([2]);
    expect(await runOf(absent)).toMatchObject({ state: 'succeeded' });
  });

  test('undoes in reverse order what has succeeded, then runs onFailure and finally', async () => {
    const run = await start(
      await define({
        nodes: [
          {},
          { after: [0] },
          { after: [1] },
          { role: 'undo', undoes: 0 },
          { role: 'undo', undoes: 1, input: { texts: ['', ''], sources: [['step', 1]] } },
          { role: 'undo', undoes: 2 },
          { role: 'onFailure', input: { texts: ['', ''], sources: [['error', null, 'step']] } },
          { role: 'finally' },
        ],
      }),
    );
    await step(run, fails());
    await step(run, fails());
    await step(run, fails(2));
    const seen = [];
    for (let jobs = await jobsOf(run); jobs.length > 0; jobs = await jobsOf(run)) {
      seen.push(jobs.map(({ node, payload }) => [node, payload]));
      await step(run, () => null);
    }
    expect(seen).toEqual([
      [[4, 1]],
      [[3, null]],
      [
        [6, 's2'],
        [7, null],
      ],
    ]);
    expect(await runOf(run)).toMatchObject({ state: 'failed', error: { step: 's2' } });
  });
});

test('a join is reached once, also if its parents end at the same time on several connections', async () => {
  const width = 4;
  const roots = Array.from({ length: width }, (_, n) => n);
  const id = await define({ nodes: [...roots.map(() => ({})), { after: roots }, { after: roots }] });
  for (let round = 0; round < 25; round++) {
    const run = await start(id);
    const types = (await jobsOf(run)).map(({ type }) => type);
    const claimed = await bench.claim(width, { types });
    expect(claimed).toHaveLength(width);
    await Promise.all(
      claimed.map(({ id: job, fence }) =>
        completeJobs(bench.db.control, SERVER_ID, [{ id: job, fence, runMs: 1, result: '1' }]),
      ),
    );
    expect(await nodesOf(run)).toEqual([width, width + 1]);
    expect(await runOf(run)).toMatchObject({ open: 2 });
    await Promise.all([step(run, fails(), width), step(run, fails(), width + 1)]);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', open: 0 });
  }
});

test('a run that ends while it is cancelled ends once', async () => {
  const id = await define({ nodes: [{}, { after: [0] }, { role: 'finally' }] });
  for (let round = 0; round < 10; round++) {
    const run = await start(id);
    const cancel = bench.pool.query(
      `update drover.run set ending = 'cancelled', stopped_at = now() where id = $1 and state = 'running' and phase = 0`,
      [run],
    );
    await Promise.all([cancel, step(run)]);
    for (let jobs = await jobsOf(run); jobs.length > 0; jobs = await jobsOf(run)) await step(run);
    expect((await runOf(run)).state).toBe('cancelled');
    const { rows } = await bench.pool.query('select node from drover.job_history where run_id = $1 and node = 2', [
      run,
    ]);
    expect(rows).toHaveLength(1);
  }
});

describe('a map', () => {
  const over: Template = { texts: ['', ''], sources: [['input', null]] };
  const input: Template = {
    texts: ['[', ',', ']'],
    sources: [
      ['item', null],
      ['index', null],
    ],
  };

  test('runs an item each, at most as many at once as it may, and gives the list of results', async () => {
    const id = await define({
      output: { texts: ['', ''], sources: [['step', 0]] },
      nodes: [{ over, input, concurrency: 3 }, { after: [0] }],
    });
    const items = Array.from({ length: 250 }, (_, index) => index * 10);
    const run = await start(id, items);
    const seen: unknown[] = [];
    while ((await nodesOf(run))[0] === 0) {
      const jobs = await jobsOf(run);
      expect(jobs.length).toBeLessThanOrEqual(3);
      await step(run, ({ payload }) => {
        seen.push(payload);
        return (payload as number[])[0];
      });
    }
    expect(seen).toEqual(items.map((item, index) => [item, index]));
    await step(run);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: items });
  });

  test('of an empty list succeeds with an empty list', async () => {
    const id = await define({
      output: { texts: ['', ''], sources: [['step', 0]] },
      nodes: [{ over, input }, { after: [0] }],
    });
    const run = await start(id, []);
    expect(await nodesOf(run)).toEqual([1]);
    await step(run);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: [] });
  });

  test('tolerates failures up to its limit', async () => {
    const nodes: Node[] = [{ over, input, tolerated: 1, concurrency: 1 }];
    const id = await define({ output: { texts: ['', ''], sources: [['step', 0]] }, nodes });
    const failing =
      (...items: number[]) =>
      (job: Row) =>
        items.includes(job.item as number) ? new Error('no') : job.item;
    const one = await start(id, [1, 2, 3]);
    const two = await start(await define({ nodes }), [1, 2, 3]);
    for (let i = 0; i < 3; i++) {
      await step(one, failing(1), 0);
      await step(two, failing(0, 1), 0);
    }
    expect(await runOf(one)).toMatchObject({ state: 'succeeded', output: [0, null, 2] });
    expect(await runOf(two)).toMatchObject({ state: 'failed' });
    expect(
      (await bench.pool.query('select count(*)::int as n from drover.job_history where run_id = $1', [two])).rows,
    ).toEqual([{ n: 2 }]);
  });

  test.each([
    ['a value that is not a list', { a: 1 }, 'not_a_list'],
    ['too many items', Array(10_001).fill(1), 'too_many_items'],
  ])('of %s fails its step by name, and the run', async (_what, list, code) => {
    const run = await start(await define({ nodes: [{ over, input }, { after: [0] }] }), list);
    expect(await runOf(run)).toMatchObject({ state: 'failed', error: { step: 's0', error: { code } } });
  });

  test('of runs starts a run for each item', async () => {
    const inner = `inner-${newId()}`;
    await define(
      {
        output: { texts: ['', ''], sources: [['step', 0]] },
        nodes: [{ input: { texts: ['', ''], sources: [['input', null, '0']] } }],
      },
      inner,
    );
    const id = await define({
      output: { texts: ['', ''], sources: [['step', 0]] },
      nodes: [{ kind: 'run', target: inner, over, input, concurrency: 2 }],
    });
    const run = await start(id, [7, 8, 9]);
    for (let round = 0; round < 5; round++) {
      const { rows } = await bench.pool.query('select id from drover.run where parent_run = $1', [run]);
      await step(
        rows.map(({ id }) => id),
        ({ payload }) => (payload as number) + 1,
      );
      await bench.pool.query('select drover.pass_on_run_endings(100)');
    }
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: [8, 9, 10] });
  });
});

describe('a child run', () => {
  test('that cannot be started fails its step', async () => {
    const run = await start(await define({ nodes: [{ kind: 'run', target: 'nothing' }] }));
    expect(await runOf(run)).toMatchObject({
      state: 'failed',
      error: { step: 's0', error: { code: 'workflow_not_found' } },
    });
  });

  test('is nested at most so deep', async () => {
    const name = `loop-${newId()}`;
    const id = await define({ nodes: [{ kind: 'run', target: name }] }, name);
    const run = await start(id);
    for (let round = 0; round < 10; round++) await bench.pool.query('select drover.pass_on_run_endings(100)');
    expect(await runOf(run)).toMatchObject({ state: 'failed' });
    const { rows } = await bench.pool.query('select max(depth)::int as depth from drover.run where workflow_id = $1', [
      id,
    ]);
    expect(rows).toEqual([{ depth: 8 }]);
  });
});

describe('a run that is retried', () => {
  const retry = (run: string) => bench.pool.query('select drover.retry_run($1)', [run]);

  test('runs the failed step and what is behind it, and keeps what has succeeded', async () => {
    const run = await start(
      await define({
        output: { texts: ['', ''], sources: [['step', 3]] },
        nodes: [
          {},
          { after: [0] },
          { after: [0] },
          {
            after: [1, 2],
            input: {
              texts: ['[', ',', ']'],
              sources: [
                ['step', 1],
                ['step', 2],
              ],
            },
          },
        ],
      }),
    );
    await step(run, fails());
    await step(run, fails(2));
    expect(await runOf(run)).toMatchObject({ state: 'failed' });
    await retry(run);
    expect(await nodesOf(run)).toEqual([2]);
    await step(run, () => 'repaired');
    expect((await jobsOf(run)).map(({ node, payload }) => [node, payload])).toEqual([[3, [1, 'repaired']]]);
    await step(run, () => 'done');
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: 'done', error: null });
    await retry(run);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded' });
  });

  test('runs the items of a map that have not succeeded', async () => {
    const over: Template = { texts: ['', ''], sources: [['input', null]] };
    const id = await define({ output: { texts: ['', ''], sources: [['step', 0]] }, nodes: [{ over, concurrency: 2 }] });
    const run = await start(id, [1, 2, 3, 4, 5]);
    await step(run, ({ item }) => (item === 1 ? new Error('no') : item));
    expect(await runOf(run)).toMatchObject({ state: 'failed' });
    await retry(run);
    const seen: unknown[] = [];
    for (let round = 0; round < 3; round++) {
      await step(run, ({ item }) => {
        seen.push(item);
        return item;
      });
    }
    expect(seen).toEqual([1, 2, 3, 4]);
    expect(await runOf(run)).toMatchObject({ state: 'succeeded', output: [0, 1, 2, 3, 4] });
  });
});

test('a run that repeats another from a step on has the outputs of the steps before it', async () => {
  const nodes: Node[] = [
    {},
    { after: [0] },
    {
      after: [1],
      input: {
        texts: ['[', ',', ']'],
        sources: [
          ['step', 0],
          ['step', 1],
        ],
      },
    },
  ];
  const first = await start(await define({ nodes }));
  for (let round = 0; round < 3; round++) await step(first, ({ node }) => `first ${node}`);
  const repeat = async (from: string, node: number) => {
    const id = newId();
    await bench.pool.query('select drover.repeat_run($1, $2, $3)', [id, from, node]);
    return id;
  };
  const second = await repeat(first, 1);
  expect(await nodesOf(second)).toEqual([1]);
  await step(second, () => 'second 1');
  expect((await jobsOf(second))[0]?.payload).toEqual(['first 0', 'second 1']);
  await step(second, () => null);
  expect(await runOf(second)).toMatchObject({ state: 'succeeded', base_run: first });
  const third = await repeat(second, 2);
  expect((await jobsOf(third))[0]?.payload).toEqual(['first 0', 'second 1']);
});
