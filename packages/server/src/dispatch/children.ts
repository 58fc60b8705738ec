/** The jobs a handler enqueued, as rows of `insert_jobs`. They become real with their parent's completion. */
import { newId, type Outcome } from '@drover/protocol';
import { toRow } from '../lifecycle/enqueue.js';

export function childRows(outcome: Extract<Outcome, { kind: 'succeeded' }>): string {
  const rows = (outcome.children ?? []).map((child) =>
    toRow({ ...child, id: child.id ?? newId(), parentId: outcome.id }, JSON.stringify(child.payload ?? null)),
  );
  return `[${rows.join(',')}]`;
}
