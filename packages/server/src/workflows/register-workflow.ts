/** Registers a workflow: the same definition registered again is the same version. */
import { createHash } from 'node:crypto';
import { graphOf, type ParsedWorkflow, type Workflow } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';
import { WORKFLOW_COLUMNS } from './find-workflow.js';
import { rowsOf } from './workflow-rows.js';

const register = sql('workflow_register')`select drover.register_workflow($1, $2, $3::json, $4::json)`;

const known = sql('workflow_known')`
select ${WORKFLOW_COLUMNS} from drover.workflow w where w.name = $1 and w.hash = $2`;

/** Throws invalid_request if its steps do not make a graph. */
export async function registerWorkflow(
  db: Runner,
  name: string,
  workflow: ParsedWorkflow,
): Promise<{ workflow: Workflow; isNew: boolean }> {
  const definition = canonical(workflow);
  const hash = createHash('sha256').update(definition).digest('hex');
  const [before] = await db.run<Workflow>(known, [name, hash]);
  if (before) return { workflow: before, isNew: false };
  const rows = rowsOf(graphOf(workflow));
  const settings = { ...rows, failsFast: workflow.failFast ?? true, timeoutMs: workflow.timeout ?? null };
  await db.run(register, [name, hash, definition, JSON.stringify(settings)]);
  const [made] = await db.run<Workflow>(known, [name, hash]);
  if (!made) throw new Error(`workflow ${name} was not registered`);
  return { workflow: made, isNew: true };
}

/** With sorted keys, so that the order in which a program writes them makes no version. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );
}
