/** All known worker sessions, active ones first. */
import type { Worker } from '@drover/protocol';
import { idRange } from '../base/id-range.js';
import { isoTime } from '../base/iso-time.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { MISSED_BEATS, UNRESPONSIVE_AFTER_BEATS } from './capacity.js';

/** Ended sessions are kept for a while; a longer list would be useless. */
const MAX_WORKERS = 10_000;
/** For the types and queues of all workers. */
const MAX_BYTES = 16 * 1024 * 1024;

const listWorkersStatement = sql('list_workers')`
select s.id, s.name, s.host, s.pid, s.sdk, s.types, s.queues, s.slots, s.running, s.server_id, s.draining, s.paused, s.ignores_pause,
  s.started_at, s.beat_at, s.ending, s.last_error, s.missed as missed_beats
from (
  select *, ${MISSED_BEATS} as missed, sum(octet_length(types::text) + coalesce(octet_length(queues::text), 0))
    over (order by ended_at desc nulls first, started_at desc, id) as bytes
  from drover.session s
  where s.id between $2 and $3
) s
-- a worker may offer a thousand types
where bytes <= ${MAX_BYTES}
order by s.ended_at desc nulls first, s.started_at desc, s.id
limit ${MAX_WORKERS}`;

type WorkerRow = {
  id: string;
  name: string;
  host: string;
  pid: number;
  sdk: string;
  types: string[];
  queues: string[] | null;
  slots: number;
  running: number;
  server_id: string | null;
  draining: boolean;
  paused: boolean;
  ignores_pause: boolean;
  started_at: Date;
  beat_at: Date;
  ending: 'resigned' | 'dead' | null;
  last_error: string | null;
  missed_beats: number;
};

export async function listWorkers(db: Runner, beatMs: number, idPrefix = ''): Promise<Worker[]> {
  const rows = await db.run<WorkerRow>(listWorkersStatement, [beatMs, ...idRange(idPrefix)]);
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    state: workerState(row),
    host: row.host,
    pid: row.pid,
    sdk: row.sdk,
    types: row.types,
    queues: row.queues,
    slots: row.slots,
    running: row.running,
    serverId: row.server_id,
    startedAt: isoTime(row.started_at),
    lastBeatAt: isoTime(row.beat_at),
    missedBeats: row.ending === null ? row.missed_beats : 0,
    lastError: row.last_error,
    paused: row.paused,
    ignoresPause: row.ignores_pause,
  }));
}

/** The state is derived, never stored, so it cannot contradict its sources. */
function workerState(
  worker: Pick<WorkerRow, 'ending' | 'draining' | 'missed_beats' | 'running' | 'paused' | 'ignores_pause'>,
): Worker['state'] {
  if (worker.ending !== null) return worker.ending;
  if (worker.missed_beats >= UNRESPONSIVE_AFTER_BEATS) return 'unresponsive';
  if (worker.draining) return 'draining';
  if (worker.paused && !worker.ignores_pause) return 'paused';
  return worker.running > 0 ? 'working' : 'waiting';
}
