/**
 * The common pulse of all servers. A server that finds it older than its period advances it. A gap that has just
 * ended is recorded when the pulse was frozen for longer than `maxGapMs`, a clock jumped, or the database is on
 * another timeline. Leases count as renewed at the end of the last gap (see lifecycle/lose): after an outage, no job
 * is started a second time only because its worker could not renew its lease.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

/** How often the pulse is advanced, by all servers together. */
const PERIOD_MS = 500;
/** A pulse in the future by more than this means that the clock was set back. */
const CLOCK_TOLERANCE_MS = 1000;

const pulse = sql('beacon')`
with timeline as (
  -- the control file lags behind a promotion; the name of the log file does not
  select ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int as number
)
update drover.beacon b
set at = now(), timeline = t.number,
  gap_ended_at = case
    when now() - b.at > $1::double precision * interval '1 millisecond'
      or b.at > now() + interval '${CLOCK_TOLERANCE_MS} milliseconds'
      -- 0: no server has read it yet
      or (b.timeline <> 0 and b.timeline <> t.number)
    then now()
    else b.gap_ended_at
  end
from timeline t
where b.at < now() - interval '${PERIOD_MS} milliseconds'
  or b.at > now() + interval '${CLOCK_TOLERANCE_MS} milliseconds' or b.timeline <> t.number
returning b.gap_ended_at = now() as "gapEnded"`;

/** Advances the pulse. Returns whether a gap has just ended. */
export async function movePulse(db: Runner, maxGapMs: number): Promise<boolean> {
  const [row] = await db.run<{ gapEnded: boolean }>(pulse, [maxGapMs]);
  return row?.gapEnded ?? false;
}
