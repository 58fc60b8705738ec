/** The routes under /workers and /servers. */
import { DroverError, type Worker } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine/engine.js';
import { markOf } from '../queries/hidden.js';
import { listServers } from '../queries/list-servers.js';
import { listWorkers } from '../queries/list-workers.js';
import type { RouteHandlers } from './route-handler.js';

type WorkersDeps = { db: Runner; engine: Engine; beatMs: number };

type WorkerRoutes = Pick<RouteHandlers, 'listWorkers' | 'listServers' | 'pauseWorker' | 'resumeWorker'>;

export function workerHandlers({ db, engine, beatMs }: WorkersDeps): WorkerRoutes {
  return {
    async listWorkers({ query, by: { principal } }) {
      const workers = await listWorkers(db, beatMs, query.idPrefix);
      return { items: principal.payloads ? workers : workers.map(withoutError) };
    },
    listServers: async () => ({ items: await listServers(db, beatMs) }),
    async pauseWorker({ params, by, body }) {
      return (await engine.pauseWorker(params.id, by, body?.note)) ?? noWorker(params.id);
    },
    async resumeWorker({ params, by }) {
      return (await engine.resumeWorker(params.id, by)) ? { id: params.id, paused: false } : noWorker(params.id);
    },
  };
}

/** What a worker reports may quote errors of its jobs. */
function withoutError(worker: Worker): Worker {
  return { ...worker, lastError: worker.lastError && markOf(worker.lastError) };
}

function noWorker(id: string): never {
  throw new DroverError('worker_not_found', `there is no live worker with the id ${id}`);
}
