/** The servers of the cluster: each records its presence with every beat, and reads the others'. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const beat = sql('server_beat')`
with said as (
  insert into drover.server (id, address, host, pid, version, draining)
  values ($1, $2, $3, $4, $5, $6)
  on conflict (id) do update
  set beat_at = now(), draining = excluded.draining, address = excluded.address
)
select id::text as id, address
from drover.server
where id <> $1 and beat_at > now() - $7::double precision * interval '1 millisecond' and not draining
order by started_at, id`;

const leave = sql('server_leave')`delete from drover.server where id = $1`;

/** Servers that have been silent for a day are forgotten. */
const forget = sql('servers_forget')`delete from drover.server where beat_at < now() - interval '1 day'`;

export type ServerIdentity = {
  id: string;
  address: string;
  host: string;
  pid: number;
  version: string;
  /** It accepts no new workers. */
  draining: boolean;
};

/** Records that this server is alive. Returns the others whose beat is at most `withinMs` old. */
export function sayPresence(
  db: Runner,
  { id, address, host, pid, version, draining }: ServerIdentity,
  withinMs = 0,
): Promise<{ id: string; address: string }[]> {
  return db.run(beat, [id, address, host, pid, version, draining, withinMs]);
}

export async function leaveCluster(db: Runner, id: string): Promise<void> {
  await db.run(leave, [id]);
  await db.run(forget);
}
