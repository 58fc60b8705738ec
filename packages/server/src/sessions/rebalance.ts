/**
 * Spreads the workers over the servers: a server with clearly more than its share asks some of its workers, a few at
 * a time, to move. A session keeps its jobs when it moves, so nothing is interrupted.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Sessions } from './registry.js';

const liveSessions = sql('live_sessions')`
select count(*)::int as count
from drover.session
where ended_at is null and server_id is not null and expires_at > now()`;

/** Share above the mean that justifies a move; for less, workers would move needlessly. */
const TOLERANCE = 0.25;
/** Workers asked to move in one round, so that the other servers see the new balance first. */
const MOVES_A_ROUND = 10;

/** How many of `mine` should move when `total` workers are served by `servers` servers. Pure. */
function surplus(mine: number, total: number, servers: number): number {
  if (servers < 2) return 0;
  const share = Math.ceil(total / servers);
  if (mine <= share + Math.max(1, Math.floor(share * TOLERANCE))) return 0;
  return Math.min(MOVES_A_ROUND, Math.ceil((mine - share) / 2));
}

export async function askSurplusToMove(db: Runner, sessions: Sessions, servers: number): Promise<number> {
  if (servers < 2 || sessions.size < 2) return 0;
  const [row] = await db.run<{ count: number }>(liveSessions);
  const moving = surplus(sessions.size, row?.count ?? 0, servers);
  const candidates = [...sessions.values()].filter((session) => !session.closed && !session.draining).slice(0, moving);
  for (const session of candidates) session.channel.moveOn();
  return candidates.length;
}
