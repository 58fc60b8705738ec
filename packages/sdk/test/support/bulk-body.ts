/** What a scripted server makes of a body in the bulk format. */
import { type BulkHead, readBulk } from '@drover/protocol';

export type SentJob = Omit<BulkHead, 'ids'> & { id: string; payload: unknown };

export function jobsOf(body: string): SentJob[] {
  return readBulk(body).flatMap(({ head: { ids, ...head }, payloads }) =>
    ids.map((id, place) => ({ id, ...head, payload: JSON.parse(payloads[place] as string) as unknown })),
  );
}
