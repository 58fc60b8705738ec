/** A paused worker gets no jobs and hands back what it has not started. The pause is stored in the session's row. */
import type { Pause } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Session } from './session.js';

/** A concurrently running server of an older version records neither who paused it nor when. */
const COLUMNS = `'worker' as scope, id::text as name, pause_note as note,
  coalesce(paused_by, 'unknown') as "pausedBy", drover.iso(coalesce(paused_at, beat_at)) as "pausedAt"`;

const list = sql('worker_pauses')`
select ${COLUMNS} from drover.session where paused and ended_at is null order by paused_at, id`;

const pause = sql('pause_worker')`
update drover.session
set paused = true, paused_by = coalesce(paused_by, $2), paused_at = coalesce(paused_at, now()),
  pause_note = coalesce($3, pause_note)
where id = $1 and ended_at is null
returning ${COLUMNS}`;

const resume = sql('resume_worker')`
update drover.session
set paused = false, paused_by = null, paused_at = null, pause_note = null
where id = $1 and ended_at is null
returning 1`;

export function listPausedWorkers(db: Runner): Promise<Pause[]> {
  return db.run<Pause>(list);
}

/** Undefined if there is no such worker. */
export async function pauseWorker(
  db: Runner,
  sessionId: string,
  by: string,
  note: string | undefined,
): Promise<Pause | undefined> {
  return (await db.run<Pause>(pause, [sessionId, by, note ?? null]))[0];
}

/** Returns whether there is such a worker. */
export async function resumeWorker(db: Runner, sessionId: string): Promise<boolean> {
  return (await db.run(resume, [sessionId])).length > 0;
}

/** Tells the server of the worker what the row says. */
export function setPaused(session: Session, paused: boolean): void {
  if (paused && !session.paused && !session.ignoresPause && !session.closed) session.channel.handBack();
  session.paused = paused;
}
