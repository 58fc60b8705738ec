/** The routes under /audit. */
import { listAudit } from '../access/audit.js';
import type { Runner } from '../db/database.js';
import type { RouteHandlers } from './route-handler.js';

export function auditHandlers(db: Runner): Pick<RouteHandlers, 'listAudit'> {
  return { listAudit: ({ query }) => listAudit(db, query) };
}
