/** The routes under /stats. */
import type { Runner } from '../db/database.js';
import type { HotCounts } from '../queries/hot-counts.js';
import { createStats } from '../queries/stats.js';
import type { RouteHandlers } from './route-handler.js';

type StatsDeps = { db: Runner; hotCounts: () => Promise<HotCounts>; beatMs: number };

export function statsHandlers({ db, hotCounts, beatMs }: StatsDeps): Pick<RouteHandlers, 'stats'> {
  const readStats = createStats(db, hotCounts, beatMs);
  return { stats: () => readStats() };
}
