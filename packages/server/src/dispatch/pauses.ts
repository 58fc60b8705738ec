/**
 * What is paused, as this server knows it. The claim itself looks at the table, so a pause holds for every
 * server from its commit on; this copy serves the shortcut for new jobs and tells workers to give back what
 * they have not started.
 */
import type { Pause } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Dispatcher } from './dispatcher.js';

const COLUMNS = `scope, name, note, paused_by as "pausedBy", drover.iso(paused_at) as "pausedAt"`;

const list = sql('pauses')`select ${COLUMNS} from drover.pause order by scope, name`;

/** A server of an older version that runs beside this one notes neither who nor when. */
const WORKER_COLUMNS = `'worker' as scope, id::text as name, pause_note as note,
  coalesce(paused_by, 'unknown') as "pausedBy", drover.iso(coalesce(paused_at, beat_at)) as "pausedAt"`;

const listWorkers = sql('worker_pauses')`
select ${WORKER_COLUMNS} from drover.session where paused and ended_at is null order by paused_at, id`;

const pause = sql('pause')`
insert into drover.pause (scope, name, paused_by, note)
values ($1, $2, $3, $4)
on conflict (scope, name) do update set note = coalesce(excluded.note, pause.note)
returning ${COLUMNS}`;

const resume = sql('resume')`delete from drover.pause where scope = $1 and name = $2 returning 1`;

const pauseSession = sql('pause_worker')`
update drover.session
set paused = true, paused_by = coalesce(paused_by, $2), paused_at = coalesce(paused_at, now()),
  pause_note = coalesce($3, pause_note)
where id = $1 and ended_at is null
returning ${WORKER_COLUMNS}`;

const resumeSession = sql('resume_worker')`
update drover.session
set paused = false, paused_by = null, paused_at = null, pause_note = null
where id = $1 and ended_at is null
returning 1`;

/** Everything that is paused: the cluster, queues, types and workers. */
export async function listPauses(db: Runner): Promise<Pause[]> {
  return [...(await db.run<Pause>(list)), ...(await db.run<Pause>(listWorkers))];
}

/** Undefined if there is no such worker. */
export async function pauseWorker(
  db: Runner,
  sessionId: string,
  by: string,
  note: string | undefined,
): Promise<Pause | undefined> {
  return (await db.run<Pause>(pauseSession, [sessionId, by, note ?? null]))[0];
}

/** Gives whether there is such a worker. */
export async function resumeWorker(db: Runner, sessionId: string): Promise<boolean> {
  return (await db.run(resumeSession, [sessionId])).length > 0;
}

/** What is a row of its own; a worker is paused in its session. */
export type PausedScope = Exclude<Pause['scope'], 'worker'>;
type ScopePause = Pause & { scope: PausedScope };

export type Pauses = {
  isPaused(queue: string, type: string): boolean;
  /** Reads the table again, and acts on what has changed. */
  refresh(dispatcher: Dispatcher): Promise<void>;
  pause(scope: PausedScope, name: string, by: string, note: string | undefined): Promise<Pause>;
  resume(scope: PausedScope, name: string): Promise<boolean>;
};

export function createPauses(db: Runner): Pauses {
  let known = new Set<string>();
  const keyOf = (scope: PausedScope, name: string) => `${scope} ${name}`;

  return {
    isPaused(queue, type) {
      if (known.size === 0) return false;
      return known.has(keyOf('cluster', '')) || known.has(keyOf('queue', queue)) || known.has(keyOf('type', type));
    },
    async refresh(dispatcher) {
      const pauses = await db.run<ScopePause>(list);
      const before = known;
      known = new Set(pauses.map(({ scope, name }) => keyOf(scope, name)));
      const added = pauses.filter(({ scope, name }) => !before.has(keyOf(scope, name)));
      for (const session of dispatcher.sessions.values()) {
        if (session.ignoresPause || session.closed) continue;
        if (added.some((one) => touches(one, session))) session.send('{"kind":"handBack"}');
      }
      if ([...before].some((key) => !known.has(key))) dispatcher.wake();
    },
    async pause(scope, name, by, note) {
      const [row] = await db.run<Pause>(pause, [scope, name, by, note ?? null]);
      return row as Pause;
    },
    async resume(scope, name) {
      return (await db.run(resume, [scope, name])).length > 0;
    },
  };
}

function touches(
  { scope, name }: ScopePause,
  session: { types: readonly string[]; queues: readonly string[] | null },
): boolean {
  if (scope === 'cluster') return true;
  if (scope === 'type') return session.types.includes(name);
  return session.queues === null || session.queues.includes(name);
}
