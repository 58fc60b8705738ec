/** The routes under /workers and /servers. */
import { DroverError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine.js';
import { listServers } from '../queries/list-servers.js';
import { listWorkers } from '../queries/list-workers.js';
import type { RouteHandlers } from './route-handler.js';

type WorkersDeps = { db: Runner; engine: Engine; beatMs: number };

type WorkerRoutes = Pick<RouteHandlers, 'listWorkers' | 'listServers' | 'pauseWorker' | 'resumeWorker'>;

export function workerHandlers({ db, engine, beatMs }: WorkersDeps): WorkerRoutes {
  async function setPaused(id: string, paused: boolean) {
    if (await engine.setWorkerPaused(id, paused)) return { id, paused };
    throw new DroverError('worker_not_found', `there is no live worker with the id ${id}`);
  }

  return {
    listWorkers: async () => ({ items: await listWorkers(db, beatMs) }),
    listServers: async () => ({ items: await listServers(db, beatMs) }),
    pauseWorker: ({ params }) => setPaused(params.id, true),
    resumeWorker: ({ params }) => setPaused(params.id, false),
  };
}
