/**
 * The list of jobs, newest id first, over the hot table and the history.
 *
 * The statement is put together of fixed parts from the tables below; only which parts are there depends
 * on the request, values always travel as parameters. It is a union of *branches*, each of which reads one
 * index in the order of the list and stops when the page is full:
 * - unfinished and finished jobs are branches of their own, and only those that the filters allow;
 * - each state that is asked for is one, with the state as a literal, because the partial indexes on the
 *   state answer to nothing else, and because an index on (state, id) is in the order of ids only for one; running and
 *   unknown jobs are found in the index of held ones;
 * - `createdBefore` is two: the UUIDv7s up to that moment, and the ids above all UUIDv7s there can be.
 *
 * Rejected: one statement for all requests with `($1 is null or queue = $1)`. It has one plan, the walk
 * through all ids, which for a queue with no jobs in 3 M rows of history took 19 s (a branch: a millisecond).
 *
 * Paging is complete: the order is by id alone, an id never changes, and one statement sees a job that is
 * just finishing in one table. What is added while somebody pages comes before the first page or, if its
 * id is older, at its place.
 */
import {
  FINISHED_STATES,
  isFinished,
  type Job,
  type JobState,
  type ListJobsQuery,
  UNFINISHED_STATES,
} from '@drover/protocol';
import { highestId, latestIdBefore } from '../base/id-time.js';
import type { Runner } from '../db/database.js';
import type { Statement } from '../db/statement.js';
import { FINISHED_COLUMNS, type JobRow, toJob, UNFINISHED_COLUMNS } from './job-row.js';
import { decodeCursor, encodeCursor, type ListFilters } from './list-cursor.js';

/**
 * No name: PostgreSQL then plans the statement for the values it comes with. Whether the index of a tag
 * or the walk by id is better depends on how frequent the tag is, and a kept plan cannot know that.
 */
const PLANNED_FOR_ITS_VALUES = '';

/** The clock of the database may have been set back a little between adding and finishing a job. */
const CLOCK_MARGIN_MS = 3_600_000;

const TABLES = {
  unfinished: { from: 'drover.job', columns: UNFINISHED_COLUMNS, states: UNFINISHED_STATES },
  finished: { from: 'drover.job_history', columns: FINISHED_COLUMNS, states: FINISHED_STATES },
} as const;
type Table = keyof typeof TABLES;

type Placeholder = `$${number}`;
type Bind = (value: unknown) => Placeholder;
type FilterName = Exclude<keyof ListFilters, 'state'>;

/** What each filter asks of a row. Times: from `…After`, included, to `…Before`, not included. */
const PREDICATES: Record<FilterName, (value: Placeholder) => string> = {
  queue: (value) => `queue = ${value}`,
  type: (value) => `type = ${value}`,
  tag: (value) => `tags @> array[${value}::text]`,
  createdAfter: (value) => `created_at >= ${value}::timestamptz`,
  createdBefore: (value) => `created_at < ${value}::timestamptz`,
  finishedAfter: (value) => `finished_at >= ${value}::timestamptz`,
  finishedBefore: (value) => `finished_at < ${value}::timestamptz`,
};
const FILTER_NAMES = Object.keys(PREDICATES) as FilterName[];

export type JobPage = { items: Job[]; nextCursor: string | null };

export async function listJobs(db: Runner, query: ListJobsQuery, nowMs = Date.now()): Promise<JobPage> {
  const { limit, cursor, ...filters } = query;
  const afterId = cursor === undefined ? undefined : decodeCursor(cursor, filters);
  const { statement, values } = listStatement(filters, afterId, limit + 1, nowMs);
  if (statement === undefined) return { items: [], nextCursor: null };
  const rows = await db.run<JobRow>(statement, values);
  const items = rows.slice(0, limit).map(toJob);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last ? encodeCursor(last.id, filters) : null };
}

/** The statement for these filters with its values; no statement if no job can fit. */
export function listStatement(
  filters: ListFilters,
  afterId: string | undefined,
  rows: number,
  nowMs: number,
): { statement: Statement | undefined; values: unknown[] } {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const limit = bind(rows);
  const branches = tablesFor(filters).flatMap((table) => {
    const shared = [...filterPredicates(table, filters, bind), ...(afterId ? [`id < ${bind(afterId)}::uuid`] : [])];
    return statePredicates(table, filters.state).flatMap((state) =>
      idRanges(filters, nowMs, bind).map((range) => branch(table, [...state, ...range, ...shared], limit)),
    );
  });
  if (branches.length === 0) return { statement: undefined, values: [] };
  const text = `
with page as (
  select *
  from (${branches.join('\n    union all')}
  ) found
  order by id desc
  limit ${limit}
)
select page.*, s.name as worker
from page
left join drover.session s on s.id = page.session_id
order by page.id desc`;
  return { statement: { name: PLANNED_FOR_ITS_VALUES, text }, values };
}

function branch(table: Table, predicates: string[], limit: Placeholder): string {
  const { columns, from } = TABLES[table];
  return `
    (select ${columns}
    from ${from}
    ${predicates.length > 0 ? `where ${predicates.join('\n      and ')}` : ''}
    order by id desc
    limit ${limit})`;
}

function tablesFor({ state, finishedAfter, finishedBefore }: ListFilters): Table[] {
  const tables: Table[] = [];
  const onlyFinished = finishedAfter !== undefined || finishedBefore !== undefined;
  if (!onlyFinished && (!state || state.some((one) => !isFinished(one)))) tables.push('unfinished');
  if (!state || state.some(isFinished)) tables.push('finished');
  return tables;
}

/** One list of predicates for each branch that the states need; all states of a table need none. */
function statePredicates(table: Table, wanted: readonly JobState[] | undefined): string[][] {
  const all = TABLES[table].states;
  const states = all.filter((state) => !wanted || wanted.includes(state));
  return states.length === all.length ? [[]] : states.map((state) => [statePredicate(state)]);
}

/** Jobs with a holder are found in the index of held ones. */
function statePredicate(state: JobState): string {
  const hasHolder = state === 'running' || state === 'unknown';
  return hasHolder ? `state = '${state}' and session_id is not null` : `state = '${state}'`;
}

function idRanges({ createdBefore }: ListFilters, nowMs: number, bind: Bind): string[][] {
  if (createdBefore === undefined) return [[]];
  const last = latestIdBefore(Date.parse(createdBefore));
  const highest = highestId(nowMs);
  // A moment in the future leaves nothing out.
  if (last >= highest) return [[]];
  return [[`id <= ${bind(last)}::uuid`], [`id > ${bind(highest)}::uuid`]];
}

function filterPredicates(table: Table, filters: ListFilters, bind: Bind): string[] {
  const predicates = FILTER_NAMES.flatMap((name) => {
    const value = filters[name];
    return value === undefined ? [] : [PREDICATES[name](bind(value))];
  });
  if (table === 'finished' && filters.createdAfter !== undefined) {
    // Nothing finishes before it is created: the days before need not be read.
    const from = new Date(Math.max(0, Date.parse(filters.createdAfter) - CLOCK_MARGIN_MS)).toISOString();
    predicates.push(PREDICATES.finishedAfter(bind(from)));
  }
  return predicates;
}
