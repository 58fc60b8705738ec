/**
 * What is paused, as this server knows it. The claim itself reads the table, so a pause applies to every server from
 * its commit. This copy serves the shortcut for new jobs, and tells workers to hand back what they have not started.
 */
import type { Pause } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { listPausedWorkers } from '../sessions/pause-worker.js';
import type { Sessions } from '../sessions/registry.js';
import type { Session } from '../sessions/session.js';
import type { Dispatcher } from './dispatcher.js';

const COLUMNS = `scope, name, note, paused_by as "pausedBy", drover.iso(paused_at) as "pausedAt"`;

const list = sql('pauses')`select ${COLUMNS} from drover.pause order by scope, name`;

const pause = sql('pause')`
insert into drover.pause (scope, name, paused_by, note)
values ($1, $2, $3, $4)
on conflict (scope, name) do update set note = coalesce(excluded.note, pause.note)
returning ${COLUMNS}`;

const resume = sql('resume')`delete from drover.pause where scope = $1 and name = $2 returning ${COLUMNS}`;

/** Everything that is paused: the cluster, queues, types and workers. */
export async function listPauses(db: Runner): Promise<Pause[]> {
  return [...(await db.run<Pause>(list)), ...(await listPausedWorkers(db))];
}

/** A scope with its own row; a worker's pause is in its session. */
export type PausedScope = Exclude<Pause['scope'], 'worker'>;
type ScopePause = Pause & { scope: PausedScope };

export type Pauses = {
  isPaused(queue: string, type: string): boolean;
  /** Reads the table again and handles changes. */
  refresh(dispatcher: Pick<Dispatcher, 'wake'>): Promise<void>;
};

export function createPauses(db: Runner, sessions: Sessions): Pauses {
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
      for (const session of sessions.values()) {
        if (session.ignoresPause || session.closed) continue;
        if (added.some((one) => touches(one, session))) session.channel.handBack();
      }
      if ([...before].some((key) => !known.has(key))) dispatcher.wake();
    },
  };
}

export async function pausePlace(
  db: Runner,
  scope: PausedScope,
  name: string,
  by: string,
  note: string | undefined,
): Promise<Pause> {
  return (await db.run<Pause>(pause, [scope, name, by, note ?? null]))[0] as Pause;
}

/** The pause that was, if there was one. */
export async function resumePlace(db: Runner, scope: PausedScope, name: string): Promise<Pause | undefined> {
  return (await db.run<Pause>(resume, [scope, name]))[0];
}

function touches({ scope, name }: ScopePause, session: Session): boolean {
  if (scope === 'cluster') return true;
  if (scope === 'type') return session.types.includes(name);
  return session.queues === null || session.queues.includes(name);
}
