/**
 * running → succeeded, for a batch. Guarded by id, fence and state: an outcome of a grant that is no longer the job's
 * changes nothing. Children that the handler enqueued are inserted by the same statement, or not at all.
 */
import { DEFAULT_QUEUE } from '@drover/protocol';
import { plainArray, readPlainArray, textArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';
import { type Change, runVerb, toChanges } from './change.js';
import { ENDED, finish, selectEnded } from './finish.js';
import { SAME_GRANT } from './same-grant.js';
import { stateAfter } from './states.js';

export type Completion = {
  id: string;
  fence: number;
  runMs: number;
  /** JSON. */
  result?: string | undefined;
};

/** A completion with the jobs it adds. */
export type CompletionWithChildren = Completion & { children: readonly JobToInsert[] };

const ENDING = {
  verb: 'complete',
  using: 'outcome o',
  where: SAME_GRANT,
  to: stateAfter('complete', 'succeeded'),
  startedAt: "now() - o.run_ms * interval '1 millisecond'",
  result: 'o.result',
  // date_part, because extract computes in numeric, which is slower
  waitMs: "greatest(0, date_part('epoch', now() - j.run_at) * 1000 - o.run_ms)",
  runMs: 'o.run_ms',
} as const;

const USUAL = { verb: 'complete', from: 'running', to: 'succeeded' } as const;

const complete = sql('complete')`
with outcome as (
  select * from unnest($1::uuid[], $3::int[], $4::double precision[], $5::text[]) as o(id, fence, run_ms, result)
), ${finish(ENDING)}
-- usually all of them share a row, which then need not list them
${selectEnded('complete', {}, { ...ENDED, ids: 'case when ended.jobs < $6::int then ended.ids end' })}`;

const completeWithChildren = sql('complete_with_children')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, run_ms double precision, result text, children text)
), ${finish({ ...ENDING, keep: 'o.children' })}, added as (
  select drover.insert_job_rows(json_agg(child)) as existing
  from finished f, json_array_elements(f.children::json) child
  -- these have left drover.job, and the history has them only when this statement is over
  where (child->>'id')::uuid not in (select id from finished)
  having count(*) > 0
)
select (select existing from added), change.*
from (${selectEnded('complete')}) change`;

export function completeJobs(db: Runner, serverId: string, items: readonly Completion[]): Promise<Change[]> {
  const ids = items.map(({ id }) => id);
  const values = [
    plainArray(ids),
    serverId,
    plainArray(items.map(({ fence }) => fence)),
    plainArray(items.map(({ runMs }) => runMs)),
    // most jobs have no result, and an absent array means nulls
    items.some(({ result }) => result !== undefined) ? textArray(items.map(({ result }) => result)) : null,
    String(ids.length),
  ];
  return runVerb(db, complete, values, USUAL, ids);
}

/** The changes are those of the completed jobs and their new children. */
export async function completeJobsWithChildren(
  db: Runner,
  serverId: string,
  items: readonly CompletionWithChildren[],
): Promise<Change[]> {
  const outcomes = items.map(({ id, fence, runMs, result, children }) => ({
    ...{ id, fence, run_ms: runMs, result },
    children: JSON.stringify(children),
  }));
  const rows = await db.runTexts(completeWithChildren, [JSON.stringify(outcomes), serverId]);
  const completed = toChanges(
    rows.map(([, ...row]) => row),
    USUAL,
  );
  // the same in every row
  const existing = new Set(readPlainArray(rows[0]?.[0] ?? '{}'));
  const parents = new Set(completed.map(({ id }) => id));
  const children = items.flatMap((item) => (parents.has(item.id) ? item.children : []));
  // the same id twice is one job
  const added = new Map(
    children.filter(({ id }) => !existing.has(id) && !parents.has(id)).map((child) => [child.id, toAdded(child)]),
  );
  return [...completed, ...added.values()];
}

/** The new job's state by this server's clock. The database decided by its own; a wrong guess only costs a lookup. */
function toAdded({ id, type, queue = DEFAULT_QUEUE, options }: JobToInsert): Change {
  const { delay, runAt } = options ?? {};
  const inMs = runAt === undefined ? (delay ?? 0) : Date.parse(runAt) - Date.now();
  const due = inMs > 0 ? ({ to: 'scheduled', dueInMs: inMs } as const) : ({ to: 'ready', dueInMs: undefined } as const);
  return { id, type, queue, verb: 'enqueue', from: 'new', ...due, attempt: 0, stop: undefined };
}
