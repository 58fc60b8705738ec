/** The routes under /queues, /types, /cluster and /pauses. */
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine/engine.js';
import type { HotCounts } from '../queries/hot-counts.js';
import { listQueues } from '../queries/list-queues.js';
import type { RouteHandlers } from './route-handler.js';

type QueuesDeps = { db: Runner; engine: Engine; hotCounts: () => Promise<HotCounts> };

type QueueRoutes = Pick<
  RouteHandlers,
  | 'listQueues'
  | 'listPauses'
  | 'pauseQueue'
  | 'resumeQueue'
  | 'pauseType'
  | 'resumeType'
  | 'pauseCluster'
  | 'resumeCluster'
>;

export function queueHandlers({ db, engine, hotCounts }: QueuesDeps): QueueRoutes {
  return {
    listQueues: async () => ({ items: await listQueues(db, hotCounts) }),
    listPauses: async () => ({ items: await engine.pauses() }),
    pauseQueue: ({ params, by, body }) => engine.pause('queue', params.name, by.principal.name, body?.note),
    resumeQueue: async ({ params }) => ({ resumed: await engine.resume('queue', params.name) }),
    pauseType: ({ params, by, body }) => engine.pause('type', params.name, by.principal.name, body?.note),
    resumeType: async ({ params }) => ({ resumed: await engine.resume('type', params.name) }),
    pauseCluster: ({ by, body }) => engine.pause('cluster', '', by.principal.name, body?.note),
    resumeCluster: async () => ({ resumed: await engine.resume('cluster', '') }),
  };
}
