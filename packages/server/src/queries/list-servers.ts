/** All known servers, newest first. */
import type { Server } from '@drover/protocol';
import { isoTime } from '../base/iso-time.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { beatsSince, UNRESPONSIVE_AFTER_BEATS } from './capacity.js';

const MAX_SERVERS = 1000;

const listServersStatement = sql('list_servers')`
select v.id, v.address, v.host, v.pid, v.version, v.draining, v.started_at, v.beat_at,
  ${beatsSince('v.beat_at', '$1')} as missed_beats,
  (select count(*) from drover.session s where s.server_id = v.id and s.ended_at is null)::int as workers
from drover.server v
order by v.started_at desc, v.id
limit ${MAX_SERVERS}`;

type ServerRow = {
  id: string;
  address: string;
  host: string;
  pid: number;
  version: string;
  draining: boolean;
  started_at: Date;
  beat_at: Date;
  missed_beats: number;
  workers: number;
};

export async function listServers(db: Runner, beatMs: number): Promise<Server[]> {
  const rows = await db.run<ServerRow>(listServersStatement, [beatMs]);
  return rows.map((row) => ({
    id: row.id,
    address: row.address,
    host: row.host,
    pid: row.pid,
    version: row.version,
    state: serverState(row),
    workers: row.workers,
    startedAt: isoTime(row.started_at),
    lastBeatAt: isoTime(row.beat_at),
  }));
}

function serverState({ missed_beats, draining }: Pick<ServerRow, 'missed_beats' | 'draining'>): Server['state'] {
  if (missed_beats >= UNRESPONSIVE_AFTER_BEATS) return 'unresponsive';
  return draining ? 'draining' : 'working';
}
