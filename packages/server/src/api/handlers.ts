/** One handler for each route of the table, shared by HTTP and the call stream. */
import type { Tokens } from '../access/tokens.js';
import type { ServerConfig } from '../config/server-config.js';
import type { Database } from '../db/database.js';
import type { Engine } from '../engine/engine.js';
import type { ScheduleEngine } from '../engine/schedules.js';
import type { WorkflowEngine } from '../engine/workflows.js';
import { createHotCounts } from '../queries/hot-counts.js';
import { auditHandlers } from './audit.js';
import { healthHandlers } from './health.js';
import { HOME_PAGE } from './home-page.js';
import { jobHandlers } from './jobs.js';
import { openApiDocument } from './openapi.js';
import { queueHandlers } from './queues.js';
import type { RouteHandlers } from './route-handler.js';
import { scheduleHandlers } from './schedules.js';
import { statsHandlers } from './stats.js';
import { tokenHandlers } from './tokens.js';
import { typeHandlers } from './types.js';
import { workerHandlers } from './workers.js';
import { workflowHandlers } from './workflows.js';

export type HandlersDeps = {
  engine: Engine;
  schedules: ScheduleEngine;
  tokens: Tokens;
  workflows: WorkflowEngine;
  db: Database;
  config: Pick<ServerConfig, 'payloadLimitBytes' | 'beatMs'>;
};

export function createHandlers({ engine, schedules, workflows, tokens, db, config }: HandlersDeps): RouteHandlers {
  const hotCounts = createHotCounts(db.reads);
  return {
    ...jobHandlers({ engine, db: db.reads, config }),
    ...queueHandlers({ db: db.reads, engine, hotCounts }),
    ...statsHandlers({ db: db.reads, hotCounts, beatMs: config.beatMs }),
    ...typeHandlers({ db: db.reads, engine }),
    ...workerHandlers({ db: db.reads, engine, beatMs: config.beatMs }),
    ...healthHandlers({ db: db.control, engine }),
    ...scheduleHandlers({ schedules, engine, db: db.reads }),
    home: () => HOME_PAGE,
    ...tokenHandlers(tokens),
    ...auditHandlers(db.reads),
    ...workflowHandlers(workflows),
    openApi: () => openApiDocument(),
    metrics: () => engine.metrics(),
  };
}
