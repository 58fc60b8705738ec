/**
 * The list of jobs, newest first, over the hot table and the history. The order is that of the ids, because a UUIDv7
 * begins with its time; an id that was made from an idempotency key has the place of a UUIDv7 of the job's creation.
 *
 * The statement is composed of fixed parts from the tables below. The request only decides which parts are used;
 * values are always parameters. It is a union of *branches*, each of which reads one index in the order of the list
 * and stops when the page is full:
 * - Unfinished and finished jobs are separate branches, included only if the filters allow them.
 * - Each requested state is a branch with the state as a literal: the partial indexes on the state match nothing
 *   else, and an index on (state, id) is in id order only within one state. Running and unknown jobs are found in the
 *   index of held jobs.
 * - Jobs with a key are branches of their own, in the order of an index of their places.
 * - `createdBefore` is two branches: the UUIDv7s up to that time, and the ids above all possible UUIDv7s.
 *
 * Rejected: one statement for all requests with `($1 is null or queue = $1)`. It has one plan, a scan of all ids,
 * which took 19 s instead of a millisecond for a queue without jobs in 3 M rows of history.
 *
 * A page ends at a number of jobs or of bytes, whichever comes first, and has at least one job.
 *
 * Paging is complete: the order is by place alone, a job's place never changes, and one statement sees a job that is
 * just finishing in one table. Jobs that are added meanwhile appear before the first page or, if their id is older,
 * at their place.
 */
import {
  FINISHED_STATES,
  isFinished,
  type JobState,
  type LargeJobPart,
  LIMITS,
  type ListJobsQuery,
  UNFINISHED_STATES,
} from '@drover/protocol';
import { idRange } from '../base/id-range.js';
import { FIRST_KEYED_ID, highestId, latestIdBefore } from '../base/id-time.js';
import { JsonText } from '../base/json-text.js';
import type { Runner } from '../db/database.js';
import type { Statement } from '../db/statement.js';
import { FINISHED_COLUMNS, type JobRow, jobText, listedColumns, UNFINISHED_COLUMNS } from './job-row.js';
import type { LanesInScope } from './lanes-in-scope.js';
import { decodeCursor, encodeCursor, type ListFilters } from './list-cursor.js';

/**
 * Unnamed, so that PostgreSQL plans the statement for its values. Whether the index of a tag or a scan by id is
 * better depends on how frequent the tag is, which a cached plan cannot know.
 */
const PLANNED_FOR_ITS_VALUES = '';

/** The most queues or types in a scope that get a branch of their own. */
const MAX_LANE_BRANCHES = 20;

/** The clock of the database may have been set back a little between the insert and the end of a job. */
const CLOCK_MARGIN_MS = 3_600_000;

const TABLES = {
  unfinished: { from: 'drover.job', columns: UNFINISHED_COLUMNS, states: UNFINISHED_STATES },
  finished: { from: 'drover.job_history', columns: FINISHED_COLUMNS, states: FINISHED_STATES },
} as const;
type Table = keyof typeof TABLES;

/** How a job came to its id decides what its place in the list is. */
const KINDS = [
  { name: 'plain', has: `id < '${FIRST_KEYED_ID}'`, place: 'id' },
  { name: 'keyed', has: `id >= '${FIRST_KEYED_ID}'`, place: 'drover.list_place(id, created_at)' },
] as const;
type Kind = (typeof KINDS)[number];

type Placeholder = `$${number}`;
type Bind = (value: unknown) => Placeholder;
type FilterName = Exclude<keyof ListFilters, 'state'>;

/** The condition of each filter. Times: from `…After` (inclusive) to `…Before` (exclusive). */
const PREDICATES: Record<FilterName, (value: string, bind: Bind) => string> = {
  queue: (value, bind) => `queue = ${bind(value)}`,
  type: (value, bind) => `type = ${bind(value)}`,
  tag: (value, bind) => `tags @> array[${bind(value)}::text]`,
  idPrefix: (value, bind) => {
    const [lowest, highest] = idRange(value);
    return `id between ${bind(lowest)}::uuid and ${bind(highest)}::uuid`;
  },
  parent: (value, bind) => `parent_id = ${bind(value)}::uuid`,
  schedule: (value, bind) => `schedule = ${bind(value)}`,
  run: (value, bind) => `run_id = ${bind(value)}::uuid`,
  createdAfter: (value, bind) => `created_at >= ${bind(value)}::timestamptz`,
  createdBefore: (value, bind) => `created_at < ${bind(value)}::timestamptz`,
  finishedAfter: (value, bind) => `finished_at >= ${bind(value)}::timestamptz`,
  finishedBefore: (value, bind) => `finished_at < ${bind(value)}::timestamptz`,
};
const FILTER_NAMES = Object.keys(PREDICATES) as FilterName[];

type ListedRow = JobRow & { found: string; place: string };

/** What a caller may see. */
export type ListView = { lanes?: LanesInScope | undefined; isHidden?: boolean };

/** JSON: one page, `{ items, nextCursor }`. */
export async function listJobs(
  db: Runner,
  query: ListJobsQuery,
  { lanes, isHidden = false }: ListView = {},
  nowMs = Date.now(),
): Promise<JsonText> {
  const { limit, cursor, include = [], ...filters } = query;
  const after = cursor === undefined ? undefined : decodeCursor(cursor, filters);
  const { statement, values } = listStatement(filters, { after, rows: limit + 1, include, lanes }, nowMs);
  const rows = statement === undefined ? [] : await db.run<ListedRow>(statement, values);
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const hasMore = last !== undefined && Number(last.found) > items.length;
  const nextCursor = hasMore ? encodeCursor(last.place, filters) : null;
  return new JsonText(
    `{"items":[${items.map((row) => jobText(row, isHidden)).join(',')}],"nextCursor":${JSON.stringify(nextCursor)}}`,
  );
}

type PageBounds = {
  /** The place of the last job of the page before. */
  after: string | undefined;
  rows: number;
  include: readonly LargeJobPart[];
  lanes?: LanesInScope | undefined;
};

/** The statement for these filters with its values. Undefined if no job can match. */
export function listStatement(
  filters: ListFilters,
  { after, rows, include, lanes }: PageBounds,
  nowMs: number,
): { statement: Statement | undefined; values: unknown[] } {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const limit = bind(rows);
  const branches = tablesFor(filters).flatMap((table) => {
    const shared = filterPredicates(table, filters, bind);
    return KINDS.flatMap((kind) => {
      const ofKind = [kind.has, ...(after ? [`${kind.place} < ${bind(after)}::uuid`] : []), ...shared];
      return statePredicates(table, filters.state).flatMap((state) =>
        timeRanges(kind, filters, nowMs, bind).flatMap((range) =>
          lanePredicates(lanes, filters, bind).map((lane) =>
            branch(table, kind, [...state, ...range, ...lane, ...ofKind], limit),
          ),
        ),
      );
    });
  });
  if (branches.length === 0) return { statement: undefined, values: [] };
  const { columns, bytes } = listedColumns(include);
  const text = `
with page as (
  select *
  from (${branches.join('\n    union all')}
  ) found
  order by place desc
  limit ${limit}
),
-- sizes only: the values are read below, for the rows of the page
measured as (
  select *, count(*) over () as found, sum(${bytes}) over (order by place desc) - (${bytes}) as bytes_before
  from page
)
select ${columns}, place, found, (select name from drover.session where id = session_id) as worker
from measured
where bytes_before < ${LIMITS.pageBytes}
order by place desc`;
  return { statement: { name: PLANNED_FOR_ITS_VALUES, text }, values };
}

function branch(table: Table, { place }: Kind, predicates: string[], limit: Placeholder): string {
  const { columns, from } = TABLES[table];
  return `
    (select ${columns}, ${place} as place
    from ${from}
    where ${predicates.join('\n      and ')}
    order by ${place} desc
    limit ${limit})`;
}

function tablesFor({ state, finishedAfter, finishedBefore }: ListFilters): Table[] {
  const tables: Table[] = [];
  const onlyFinished = finishedAfter !== undefined || finishedBefore !== undefined;
  if (!onlyFinished && (!state || state.some((one) => !isFinished(one)))) tables.push('unfinished');
  if (!state || state.some(isFinished)) tables.push('finished');
  return tables;
}

/** One list of predicates per branch that the states need. All states of a table together need no predicate. */
function statePredicates(table: Table, wanted: readonly JobState[] | undefined): string[][] {
  const all = TABLES[table].states;
  const states = all.filter((state) => !wanted || wanted.includes(state));
  return states.length === all.length ? [[]] : states.map((state) => [statePredicate(state)]);
}

/** Jobs with a holder are found in the index of held jobs. */
function statePredicate(state: JobState): string {
  const hasHolder = state === 'running' || state === 'unknown';
  return hasHolder ? `state = '${state}' and session_id is not null` : `state = '${state}'`;
}

/** A branch for each queue, or else for each type, because an index is in id order only within one of them. */
function lanePredicates(lanes: LanesInScope | undefined, filters: ListFilters, bind: Bind): string[][] {
  const { queues, types } = lanes ?? {};
  const oneOf = (column: string, names: readonly string[] | undefined) =>
    names === undefined ? [] : [`${column} = any(${bind(names)})`];
  const each = queues ?? types;
  if (each === undefined) return [[]];
  const { queue, type, parent, schedule, run, idPrefix } = filters;
  const isNarrow = [queue, type, parent, schedule, run, idPrefix].some((filter) => filter !== undefined);
  if (isNarrow || each.length > MAX_LANE_BRANCHES) return [[...oneOf('queue', queues), ...oneOf('type', types)]];
  const column = queues === undefined ? 'type' : 'queue';
  return each.map((name) => [`${column} = ${bind(name)}`, ...(queues === undefined ? [] : oneOf('type', types))]);
}

function timeRanges({ name, place }: Kind, { createdBefore }: ListFilters, nowMs: number, bind: Bind): string[][] {
  if (createdBefore === undefined) return [[]];
  const last = latestIdBefore(Date.parse(createdBefore));
  const highest = highestId(nowMs);
  // A time in the future excludes nothing.
  if (last >= highest) return [[]];
  const early = [`${place} <= ${bind(last)}::uuid`];
  return name === 'keyed' ? [early] : [early, [`id > ${bind(highest)}::uuid`]];
}

function filterPredicates(table: Table, filters: ListFilters, bind: Bind): string[] {
  const predicates = FILTER_NAMES.flatMap((name) => {
    const value = filters[name];
    return value === undefined ? [] : [PREDICATES[name](value, bind)];
  });
  if (table === 'finished' && filters.createdAfter !== undefined) {
    // A job cannot finish before it is created, so earlier days are not read.
    const from = new Date(Math.max(0, Date.parse(filters.createdAfter) - CLOCK_MARGIN_MS)).toISOString();
    predicates.push(PREDICATES.finishedAfter(from, bind));
  }
  return predicates;
}
