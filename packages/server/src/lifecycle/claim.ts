/**
 * ready → running, for all free slots of a server in one statement. The rows are locked with `skip locked`, so any
 * number of servers claim at once and no job is granted twice. The grant is committed, with its holder, before it is
 * sent.
 *
 * Slots come in groups: workers that take the same types from the same queues. A group reads its lanes, one per
 * (queue, type). It takes jobs from the lanes whose first job has the highest priority, in equal shares, down to the
 * priority of the best other lane. So a more urgent job always comes first, types of equal priority share the slots,
 * and the backlog of other types costs nothing. Rejected: one range over a whole queue. It is simpler, but a million
 * jobs of a type without a worker here would slow down every claim.
 */
import { DEFAULT_MAX_ATTEMPTS } from '@drover/protocol';
import { plainArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { assignmentText } from './assignment-text.js';
import { mayMove, stateAfter, stateLiteral } from './states.js';

/** Free slots of equal workers. */
export type SlotGroup = {
  types: readonly string[];
  queues: readonly string[] | null;
  /** Types that these workers define with `onLost: hold`: their jobs are held, whatever their own options say. */
  holdTypes?: readonly string[];
  /** The session of each slot, in the order in which the slots are filled. */
  slots: readonly string[];
  /** These workers keep working when their queues, their types or the cluster are paused. */
  ignoresPause: boolean;
};

export type ClaimedJob = {
  id: string;
  fence: number;
  sessionId: string;
  /** The assignment as JSON, in the form in which it is sent to the worker. */
  assignment: string;
};

/** The columns of the claim, as strings. Numbers are null where they have the most common value. */
type ClaimedRow = [
  id: string,
  sessionNumber: string,
  fence: string | null,
  attempt: string | null,
  maxAttempts: string | null,
  type: string,
  queue: string,
  payload: string,
  options: string | null,
  lostAttempts: string | null,
  hold: string | null,
];

const claim = sql('claim')`
with slot_group as materialized (
  select *
  from json_to_recordset($1) as g(
    ordinal int, types text[], queues text[], hold_types text[], slots int[], ignores_pause boolean)
), lane as (
  select distinct g.ordinal, cardinality(g.slots) as wanted, l.queue, l.type
  from slot_group g
  join drover.lane l on l.type = any(g.types) and (g.queues is null or l.queue = any(g.queues))
  -- usually an empty table
  where g.ignores_pause or not exists (
    select from drover.pause p
    where p.scope = 'cluster' or (p.scope = 'queue' and p.name = l.queue) or (p.scope = 'type' and p.name = l.type)
  )
), head as (
  -- one probe of the ready index a lane
  select lane.*, first.priority
  from lane
  cross join lateral (
    select j.priority
    from drover.job j
    where ${mayMove('claim')} and j.queue = lane.queue and j.type = lane.type
    order by j.priority desc, j.order_key
    limit 1
  ) first
), ranked as (
  select head.*,
    max(priority) over (partition by ordinal) as top,
    -- the highest head among the group's other lanes
    (array_agg(priority) over (partition by ordinal order by priority desc, queue, type
      rows between unbounded preceding and unbounded following))[2] as runner_up
  from head
), share as (
  select *,
    ceil(wanted / count(*) over (partition by ordinal)::numeric)::int as share_size
  from ranked
  where priority = top
), picked as (
  -- a job that two groups could take may be picked by both; the update below gives it to one of them
  select share.ordinal, j.row_address, row_number() over (partition by share.ordinal) as place
  from share
  cross join lateral (
    select job.ctid as row_address
    from drover.job
    where ${mayMove('claim', 'job.state')} and job.queue = share.queue and job.type = share.type
      and job.priority >= coalesce(share.runner_up, -32768)
      -- it was cancelled while a worker handed it back, and is about to end
      and job.cancel_requested_at is null
      -- past its expiry it is failed by the next look for such jobs, never started
      and (job.expires_at is null or job.expires_at > now())
    order by job.priority desc, job.order_key
    limit share.share_size
    for update skip locked
  ) j
)
update drover.job j
set state = ${stateAfter('claim', 'running')}, fence = j.fence + 1, attempt = j.attempt + 1, started_at = now(),
  session_id = ($2::uuid[])[g.slots[p.place]],
  -- before the worker starts it, so that the stricter policy applies when it is lost
  hold_if_lost = j.hold_if_lost or j.type = any(g.hold_types)
from picked p
join slot_group g on g.ordinal = p.ordinal
-- by its address, which the lock above pins: a second look into an index would cost a fifth of the claim
-- still ready: not as an equality, or PostgreSQL may walk through the index of all ready jobs for it
where j.ctid = p.row_address and j.state is not distinct from ${stateLiteral('ready')} and p.place <= cardinality(g.slots)
-- what is null costs neither side anything; these and the number of the session are 3 % of the claim's instructions
returning j.id, g.slots[p.place], nullif(j.fence, 1), nullif(j.attempt, 1), nullif(j.max_attempts, ${DEFAULT_MAX_ATTEMPTS}),
  j.type, j.queue, j.payload, j.options, nullif(j.lost_attempts, 0),
  nullif(j.hold_if_lost, false)`;

export async function claimJobs(db: Runner, groups: readonly SlotGroup[]): Promise<ClaimedJob[]> {
  const sessions: string[] = [];
  const numbers = new Map<string, number>();
  // Each session's id is sent once, and a slot refers to it by number: parsing a thousand ids costs a millisecond.
  const numberOf = (session: string): number => {
    const number = numbers.get(session) ?? sessions.push(session);
    numbers.set(session, number);
    return number;
  };
  const slotGroups = groups.map(({ types, queues, holdTypes = [], slots, ignoresPause }, ordinal) => {
    const rest = { hold_types: holdTypes, slots: slots.map(numberOf), ignores_pause: ignoresPause };
    return { ordinal, types, queues, ...rest };
  });
  const rows = await db.runTexts(claim, [JSON.stringify(slotGroups), plainArray(sessions)]);
  return rows.map((row) => toClaimedJob(row as ClaimedRow, sessions));
}

function toClaimedJob(row: ClaimedRow, sessions: readonly string[]): ClaimedJob {
  const [id, sessionNumber, fence, attempt, maxAttempts, type, queue, payload, options, lostAttempts, hold] = row;
  const parts = { id, fence: fence ?? 1, attempt: attempt ?? 1, maxAttempts: maxAttempts ?? DEFAULT_MAX_ATTEMPTS };
  return {
    id,
    fence: Number(parts.fence),
    sessionId: sessions[Number(sessionNumber) - 1] as string,
    assignment: assignmentText({ ...parts, lostAttempts, type, queue, payload, hold: hold !== null, options }),
  };
}
