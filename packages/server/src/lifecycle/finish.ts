/**
 * The SQL by which every verb ends jobs; there is no other way. It deletes them from drover.job and adds them to
 * drover.job_history and to the rollup of the minute, all in the verb's statement, so that a job is never in both
 * tables and never in none.
 *
 * A verb composes `finish` into its `with` list. It names the condition for the job `j`, at most one CTE to join `j`
 * with (such as the outcomes), and the ending; `finish` adds the guard by the state before. It adds the CTEs
 * `finished` (the jobs as they were, and `to_state`), `moved`, `ended` and `counted`. The verb selects its changes
 * from `ended`, with the columns ENDED.
 *
 * Other actions at the end of a job (unblock its dependants, free its places behind limits, record an event) are
 * added here. A test refuses any other statement that deletes unfinished jobs, fills the history or writes the
 * rollup.
 */
import { type JobState, type JobVerb, MOVES } from '@drover/protocol';
import { type ChangeColumns, selectChanges } from './change.js';
import { mayMove, stateAfter } from './states.js';

/** Columns that are copied to the history unchanged. */
const KEPT = [
  ...['id', 'parent_id', 'schedule', 'run_id', 'node', 'item'],
  ...['session_id', 'created_at', 'run_at', 'expires_at', 'cancel_requested_at'],
  ...['fence', 'attempt', 'max_attempts', 'priority', 'hold_if_lost'],
  ...['queue', 'type', 'tags', 'options', 'payload', 'progress'],
];
const LOST_ON_RETURN = new Set(['session_id', 'cancel_requested_at', 'run_at', 'expires_at', 'max_attempts']);
/** Columns that are restored unchanged when a retry takes the job out of the history. */
export const KEPT_ON_RETURN = [...KEPT.filter((column) => !LOST_ON_RETURN.has(column)), 'lost_attempts', 'attempts'];

/** The changes in the CTE `ended`. */
export const ENDED: ChangeColumns = { ids: 'ended.ids', from: 'ended.state', to: 'ended.to_state' };

/** The jobs that were added because others have failed for good. Reading `existing` is what runs the insert. */
const FOLLOWED: ChangeColumns = {
  ...{ verb: "'enqueue'", from: "'new'" },
  to: "case when followed.existing is null then 'ready' end",
};

/** The next steps of runs. Reading them is what moves the runs. */
const ADVANCED: ChangeColumns = {
  ...{ verb: "'enqueue'", from: "'new'", attempt: '0' },
  to: "case when advanced.options->>'delay' is null then 'ready' else 'scheduled' end",
  dueInMs: "advanced.options->>'delay'",
};

/** What a verb that ends jobs selects: what it ended, its other changes, and what followed from all of them. */
export function selectEnded(verb: JobVerb, others: Record<string, ChangeColumns> = {}, ended = ENDED): string {
  return selectChanges({ ended, ...others, ...(mayFail(verb) ? { followed: FOLLOWED } : {}), advanced: ADVANCED });
}

function mayFail(verb: JobVerb): boolean {
  const { to }: { to: readonly JobState[] } = MOVES[verb];
  return to.includes('failed');
}

/** Everything but `verb` is SQL. */
type Ending = {
  verb: JobVerb;
  /** A CTE with its alias, joined with the job. */
  using?: string;
  /** Which jobs: by id, and by fence where a worker reports. */
  where: string;
  /** The state before, if it is known better than from `j`: from a CTE that has locked the row. */
  stateBefore?: string;
  /** By stateAfter. */
  to: string;
  startedAt?: string;
  attempts?: string;
  lostAttempts?: string;
  result?: string;
  error?: string;
  waitMs?: string;
  runMs?: string;
  /** More columns for `finished`. */
  keep?: string;
  /** A CTE of attempts that did not end their job and are counted with these: queue, type, state (the one after), run_ms. */
  retried?: string;
};

/** The second parameter of the statement is the id of the server. */
export function finish(ending: Ending): string {
  const { using, where, stateBefore, verb, to, startedAt = 'j.started_at', attempts = 'j.attempts' } = ending;
  const { lostAttempts = 'j.lost_attempts', result = 'null', error = 'null', waitMs = '0', runMs = '0' } = ending;
  // Summed columns come first: PostgreSQL reaches a column behind those of the job only by walking over all of them.
  return `finished as (
  delete from drover.job j
  ${using === undefined ? '' : `using ${using}`}
  where ${where} and ${mayMove(verb, stateBefore)}
  returning ${to} as to_state, ${runMs} as run_ms, ${waitMs} as wait_ms, j.*,
    ${startedAt} as ended_started_at, ${attempts} as ended_attempts, ${lostAttempts} as ended_lost_attempts,
    (${result})::json as ended_result, (${error})::json as ended_error${ending.keep === undefined ? '' : `, ${ending.keep}`}
), moved as (
  insert into drover.job_history (${KEPT.join(', ')},
    lost_attempts, started_at, finished_at, keep_until, state, attempts, result, error)
  select ${KEPT.join(', ')},
    ended_lost_attempts, ended_started_at, now(), now() + (options->>'retention')::bigint * interval '1 millisecond',
    to_state, ended_attempts, ended_result, ended_error
  from finished
  returning run_id, node, item, state
), advanced as materialized (
  -- runs are locked here: after the jobs, and before the rows of the rollup
  select step.*
  from (
    select array_agg(run_id) as runs, array_agg(node) as nodes, array_agg(item) as items, array_agg(state::text) as states
    from moved
    where run_id is not null
    having count(*) > 0
  ) of_runs
  cross join lateral drover.advance(runs, nodes, items, states) step
), ended as (
  -- jobs that differ in nothing but the id share a row: naming each in a row of its own is 8 % of a finish, a list of ids 4 %
  select queue, type, attempt, state, to_state, array_agg(id) as ids,
    count(*) as jobs, sum(wait_ms) as wait_ms, sum(run_ms) as run_ms
  from finished
  group by queue, type, attempt, state, to_state
), counted as (${addToRollup(ending.retried)}
)${mayFail(verb) ? FOLLOW : ''}`;
}

/**
 * The job that a failed one names in its option `onFailure`, in the same queue: once per ending, because the row that
 * failed was deleted by this statement. One insert per job, because the payload of the failed one is in it, and all of a
 * batch could be more than a value can hold.
 */
const FOLLOW = `, followed as materialized (
  select f.id, f.type, f.queue, 0 as attempt, drover.insert_job_rows(json_build_array(json_build_object(
      'id', f.id, 'type', f.type, 'queue', f.queue, 'payload', f.payload::text,
      'options', json_strip_nulls(json_build_object('parentId', f.failed_id, 'tags', f.tags))))) as existing
  from (
    select drover.new_id() as id, options->>'onFailure' as type, queue, tags, id as failed_id,
      json_build_object('job', json_build_object('id', id, 'type', type, 'queue', queue, 'attempt', attempt,
        'maxAttempts', max_attempts, 'tags', coalesce(tags, '{}'), 'occurrence', options->'occurrence',
        'payload', payload, 'error', ended_error)) as payload
    from finished
    where to_state = ${stateAfter('fail', 'failed')} and options->>'onFailure' is not null
    -- so that each id is made once
    offset 0
  ) f
)`;

/**
 * Rows are per server, so only statements of one server wait for each other here, and a server writes one batch of
 * outcomes at a time.
 */
function addToRollup(retried: string | undefined): string {
  const attempts =
    retried === undefined
      ? 'ended'
      : `(
    select queue, type, to_state, jobs, wait_ms, run_ms from ended
    union all
    select queue, type, state, 1, 0, run_ms from ${retried}
  ) attempt`;
  const countOf = (state: string) => `coalesce(sum(jobs) filter (where to_state = ${state}), 0)`;
  return `
  insert into drover.rollup as r
    (minute, server_id, queue, type, succeeded, failed, cancelled, retried, wait_ms, run_ms)
  select date_trunc('minute', now()), $2::uuid, queue, type,
    ${countOf(stateAfter('complete', 'succeeded'))},
    ${countOf(stateAfter('fail', 'failed'))},
    ${countOf(stateAfter('cancel', 'cancelled'))},
    ${countOf(stateAfter('retryLater', 'scheduled'))},
    sum(wait_ms), sum(run_ms)
  from ${attempts}
  group by queue, type
  -- the order in which the rows are locked
  order by queue, type
  on conflict (minute, server_id, queue, type) do update
  set succeeded = r.succeeded + excluded.succeeded,
    failed = r.failed + excluded.failed,
    cancelled = r.cancelled + excluded.cancelled,
    retried = r.retried + excluded.retried,
    wait_ms = r.wait_ms + excluded.wait_ms,
    run_ms = r.run_ms + excluded.run_ms`;
}
