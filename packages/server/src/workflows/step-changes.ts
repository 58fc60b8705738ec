/** The jobs that a move of runs has added, as changes to publish. */
import type { Change } from '../lifecycle/change.js';

/** The select list for rows of drover.step_job. */
export const STEP_JOB_COLUMNS = `id::text as id, type, queue, (options->>'delay')::double precision as "delayMs"`;

export type StepJobRow = { id: string; type: string; queue: string | null; delayMs: number | null };

export function toStepChanges(rows: readonly StepJobRow[]): Change[] {
  return rows.map(({ id, type, queue, delayMs }) => ({
    ...{ id, type, queue: queue ?? 'default', verb: 'enqueue', from: 'new', attempt: 0, stop: undefined },
    ...(delayMs === null ? { to: 'ready', dueInMs: undefined } : { to: 'scheduled', dueInMs: delayMs }),
  }));
}
