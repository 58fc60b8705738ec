/** The routes under /workers and /servers. */
import type { Runner } from '../db/database.js';
import { listServers } from '../queries/list-servers.js';
import { listWorkers } from '../queries/list-workers.js';
import type { RouteHandlers } from './route-handler.js';

type WorkersDeps = { db: Runner; beatMs: number };

export function workerHandlers({ db, beatMs }: WorkersDeps): Pick<RouteHandlers, 'listWorkers' | 'listServers'> {
  return {
    listWorkers: async () => ({ items: await listWorkers(db, beatMs) }),
    listServers: async () => ({ items: await listServers(db, beatMs) }),
  };
}
