/** The routes under /queues. */
import type { Runner } from '../db/database.js';
import type { HotCounts } from '../queries/hot-counts.js';
import { listQueues } from '../queries/list-queues.js';
import type { RouteHandlers } from './route-handler.js';

type QueuesDeps = { db: Runner; hotCounts: () => Promise<HotCounts> };

export function queueHandlers({ db, hotCounts }: QueuesDeps): Pick<RouteHandlers, 'listQueues'> {
  return { listQueues: async () => ({ items: await listQueues(db, hotCounts) }) };
}
