/** The jobs a handler enqueued. They become real with their parent's completion. */
import type { Outcome } from '@drover/protocol';
import { type JobToInsert, toJobToInsert } from '../new-jobs/job-to-insert.js';

export function childrenOf({ id, children = [] }: Extract<Outcome, { kind: 'succeeded' }>): JobToInsert[] {
  return children.map((child) => toJobToInsert(child, id));
}
