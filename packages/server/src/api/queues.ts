/** The routes under /queues, /types, /cluster and /pauses. */
import type { Pause, Queue } from '@drover/protocol';
import type { Caller } from '../access/principal.js';
import { matches, requireWhole, type Scope } from '../access/scope.js';
import type { Runner } from '../db/database.js';
import type { Engine, PausedScope } from '../engine/engine.js';
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
  async function pause(scope: PausedScope, name: string, by: Caller, note: string | undefined): Promise<Pause> {
    if (scope !== 'cluster') requireWhole(by.principal, scope, name);
    return engine.pause(scope, name, by, note);
  }

  async function resume(scope: PausedScope, name: string, by: Caller): Promise<{ resumed: boolean }> {
    if (scope !== 'cluster') requireWhole(by.principal, scope, name);
    return { resumed: await engine.resume(scope, name, by) };
  }

  return {
    async listQueues({ by: { principal } }) {
      const queues = await listQueues(db, hotCounts);
      return { items: principal.scope ? queuesInScope(queues, principal.scope) : queues };
    },
    async listPauses({ by: { principal } }) {
      const pauses = await engine.pauses();
      return { items: principal.scope ? pausesInScope(pauses, principal.scope) : pauses };
    },
    pauseQueue: ({ params, by, body }) => pause('queue', params.name, by, body?.note),
    resumeQueue: ({ params, by }) => resume('queue', params.name, by),
    pauseType: ({ params, by, body }) => pause('type', params.name, by, body?.note),
    resumeType: ({ params, by }) => resume('type', params.name, by),
    pauseCluster: ({ by, body }) => pause('cluster', '', by, body?.note),
    resumeCluster: ({ by }) => resume('cluster', '', by),
  };
}

/** The counts of a queue are those of all its types. */
function queuesInScope(queues: readonly Queue[], scope: Scope): Queue[] {
  return queues
    .filter(({ name }) => matches(scope.queues, name))
    .map((queue) => ({ ...queue, types: queue.types.filter((type) => matches(scope.types, type)) }))
    .filter(({ types }) => types.length > 0);
}

function pausesInScope(pauses: readonly Pause[], { queues, types }: Scope): Pause[] {
  return pauses.filter(({ scope, name }) => {
    if (scope === 'cluster') return true;
    if (scope === 'queue') return matches(queues, name);
    return scope === 'type' && matches(types, name);
  });
}
