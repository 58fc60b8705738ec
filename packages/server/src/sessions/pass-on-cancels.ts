/**
 * Passes cancel requests for running jobs on to the workers of this server. The request is in the job's row. A hint from the
 * server that took it makes this quick; the periodic lookup makes it certain.
 */
import type { Logger } from 'pino';
import { groupBy } from '../base/group-by.js';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { wasCancelled } from '../lifecycle/stop-reason.js';
import type { StopRequest } from './channel.js';
import type { Sessions } from './registry.js';
import type { Session } from './session.js';

const requested = sql('cancels_requested')`
select id::text as id, fence, session_id::text as "sessionId",
  case when ${wasCancelled('held')} then 'cancelled' else 'expired' end as reason
from drover.job as held
where cancel_requested_at is not null and session_id = any($1::uuid[])`;

type Requested = StopRequest & { sessionId: string };

/** Tells every session of this server what it must stop. Telling it twice does no harm. */
export async function passOnCancels(db: Runner, sessions: Sessions, logger: Logger): Promise<void> {
  const busy = [...sessions.values()].filter((session) => session.grants.size > 0).map((session) => session.id);
  if (busy.length === 0) return;
  const rows = await db.run<Requested>(requested, [busy]);
  for (const [sessionId, items] of groupBy(rows, (row) => row.sessionId)) {
    logger.debug({ event: 'cancels.passed', session: sessionId, jobs: items.length }, 'passing on cancels');
    tellToStop(sessions.get(sessionId), items);
  }
}

export function tellToStop(session: Session | undefined, items: readonly StopRequest[]): void {
  if (session && !session.closed) session.channel.cancel(items);
}
