/** The jobs that a handler enqueued. They are inserted with their parent's completion. */
import type { Outcome } from '@drover/protocol';
import { type JobToInsert, toJobToInsert } from '../new-jobs/job-to-insert.js';

export function childrenOf({ id, children = [] }: Extract<Outcome, { kind: 'succeeded' }>): JobToInsert[] {
  return children.map((child) => toJobToInsert(child, id));
}
