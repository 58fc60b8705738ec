/**
 * running → succeeded, for a batch. Guarded by id, fence and state: an outcome of a grant that is no
 * longer the job's changes nothing and its id is not returned. Children that the handler enqueued become
 * real in the same statement, or not at all.
 */
import { plainArray, readPlainArray, textArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { INSERT_FINISHED_INTO_HISTORY } from './move-to-history.js';
import { addToRollup } from './rollup.js';
import { SAME_GRANT } from './same-grant.js';

export type Completion = {
  id: string;
  fence: number;
  runMs: number;
  /** JSON text. */
  result: string | undefined;
};

/** A completion with the jobs it adds, as rows of drover.insert_job_rows (JSON text of an array). */
export type CompletionWithChildren = Completion & { children: string };

/**
 * What the rollup reads stands first: reaching a column behind the job's thirty would cost a walk over them for each row.
 * date_part, not extract, which counts in numeric. Together 3 % of the statement's instructions.
 */
const FINISH = `
  delete from drover.job j
  using outcome o
  where ${SAME_GRANT} and j.state in ('running', 'unknown')
  returning 'succeeded'::drover.job_state as ended_state, o.run_ms,
    greatest(0, date_part('epoch', now() - j.run_at) * 1000 - o.run_ms) as wait_ms, j.*,
    now() - o.run_ms * interval '1 millisecond' as ended_started_at,
    j.attempts as ended_attempts, o.result::json as ended_result, null::json as ended_error`;

const complete = sql('complete')`
with outcome as (
  select * from unnest($1::uuid[], $4::int[], $5::double precision[], $6::text[]) as o(id, fence, run_ms, result)
), finished as (${FINISH}
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
)
-- the usual answer, "all of them", is one null instead of a thousand ids
select case when count(*) <> $3::int then coalesce(array_agg(id), '{}') end from finished`;

const completeWithChildren = sql('complete_with_children')`
with outcome as (
  select * from json_to_recordset($1) as o(id uuid, fence int, run_ms double precision, result text, children text)
), finished as (${FINISH}, o.children
), moved as (${INSERT_FINISHED_INTO_HISTORY}
), counted as (${addToRollup('finished', '$2')}
), added as (
  select drover.insert_job_rows(json_agg(child))
  from finished f, json_array_elements(f.children::json) child
  having count(*) > 0
)
-- counting "added" is what makes PostgreSQL run it
select coalesce(array_agg(id::text), '{}') as ids, (select count(*) from added) from finished`;

/** Gives the ids that were completed, or null for all of them. */
export async function completeJobs(db: Runner, serverId: string, items: Completion[]): Promise<string[] | null> {
  const [[ids] = []] = await db.runTexts(complete, [
    plainArray(items.map(({ id }) => id)),
    serverId,
    String(items.length),
    plainArray(items.map(({ fence }) => fence)),
    plainArray(items.map(({ runMs }) => runMs)),
    // most have none, and an absent array is one of nulls
    items.some(({ result }) => result !== undefined) ? textArray(items.map(({ result }) => result)) : null,
  ]);
  return ids ? readPlainArray(ids) : null;
}

/** Gives the ids that were completed. */
export async function completeJobsWithChildren(
  db: Runner,
  serverId: string,
  items: CompletionWithChildren[],
): Promise<string[]> {
  const rows = items.map(({ id, fence, runMs, result, children }) => ({ id, fence, run_ms: runMs, result, children }));
  const [answer] = await db.run<{ ids: string[] }>(completeWithChildren, [JSON.stringify(rows), serverId]);
  return answer?.ids ?? [];
}
