/** Workflows for the API and the CLI. */
import { DroverError, type Workflow } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

/** The columns of a row `w` of drover.workflow. */
export const WORKFLOW_COLUMNS = `w.name, w.version,
  (select count(*)::int from drover.node n where n.workflow_id = w.id and n.role = 'step') as steps,
  drover.iso(w.registered_at) as "registeredAt"`;

const find = sql('find_workflow')`
select ${WORKFLOW_COLUMNS}, w.definition
from drover.workflow w
where w.name = $1 and ($2::int is null or w.version = $2)
order by w.version desc
limit 1`;

const list = sql('list_workflows')`
select ${WORKFLOW_COLUMNS}
from drover.workflow w
where w.name > $1 and not exists (select from drover.workflow l where l.name = w.name and l.version > w.version)
order by w.name
limit $2`;

export async function findWorkflow(
  db: Runner,
  name: string,
  version?: number,
): Promise<Workflow & { definition: unknown }> {
  const [row] = await db.run<Workflow & { definition: unknown }>(find, [name, version ?? null]);
  if (!row) throw workflowNotFound(name, version);
  return row;
}

export function workflowNotFound(name: string, version?: number): DroverError {
  const what = version === undefined ? `workflow ${name}` : `version ${version} of workflow ${name}`;
  return new DroverError('workflow_not_found', `there is no ${what}`, { workflow: name, version });
}

/** By name. The cursor is the last name. */
export async function listWorkflows(
  db: Runner,
  after: string,
  limit: number,
): Promise<{ items: Workflow[]; hasMore: boolean }> {
  const rows = await db.run<Workflow>(list, [after, limit + 1]);
  return { items: rows.slice(0, limit), hasMore: rows.length > limit };
}
