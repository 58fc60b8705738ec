/** The jobs a handler enqueued, as rows of drover.insert_job_rows. They become real with their parent's completion. */
import type { Outcome } from '@drover/protocol';
import { toJobToInsert } from '../admission/job-to-insert.js';

export function childRows({ id, children = [] }: Extract<Outcome, { kind: 'succeeded' }>): string {
  return JSON.stringify(children.map((child) => toJobToInsert(child, id)));
}
