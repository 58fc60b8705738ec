/**
 * Sends many jobs in as few requests as the limits allow. Each request is all or nothing. Jobs beyond the limits of
 * one request go into further requests, sent one after the other to keep the order. The next request is encoded while
 * the server works on the current one.
 *
 * When a request fails, the call rejects; the requests before it have taken effect.
 */
import { type BulkJob, LIMITS, writeBulk } from '@drover/protocol';
import { type EncodedJob, encodeJobAt } from '../encode-job.js';
import type { JobDefinition, JobToAdd } from '../job-definition.js';

/** Bytes that one job adds to a request for its id and line breaks, besides head and payload. */
const OVERHEAD_BYTES = 64;
/** A character of a string takes up to three bytes in UTF-8. */
const BYTES_PER_CHARACTER = 3;

/** A job that a request has added, or that existed already. */
export type AddedJob = { id: string; created: boolean; definition: JobDefinition };

/** Sends the body of a batch of jobs. Returns the places of those that existed already. */
export type SendBulk = (body: Buffer) => Promise<ReadonlySet<number>>;

type Chunk = { jobs: EncodedJob[]; body: Buffer; next: number };

export async function enqueueInBulk(items: readonly JobToAdd[], send: SendBulk): Promise<AddedJob[]> {
  const added: AddedJob[] = [];
  let chunk = items.length > 0 ? await encodeChunk(items, 0) : undefined;
  while (chunk) {
    // Observed at once: it may reject while the next chunk is still being encoded.
    const answered = send(chunk.body).then(
      (existed) => ({ existed }),
      (error: unknown) => ({ error }),
    );
    const next = chunk.next < items.length ? encodeChunk(items, chunk.next) : undefined;
    const [answer, nextChunk] = await Promise.all([answered, next]);
    if ('error' in answer) throw answer.error;
    chunk.jobs.forEach(({ id, definition }, place) => {
      added.push({ id, created: !answer.existed.has(place), definition });
    });
    chunk = nextChunk;
  }
  return added;
}

async function encodeChunk(items: readonly JobToAdd[], from: number): Promise<Chunk> {
  const jobs: EncodedJob[] = [];
  let bytes = 0;
  let index = from;
  for (; index < items.length && jobs.length < LIMITS.batchJobs; index++) {
    const encoded = encodeJobAt(items, index);
    const job = encoded instanceof Promise ? await encoded : encoded;
    bytes += sizeAtMost(job);
    if (jobs.length > 0 && bytes > LIMITS.requestBytes) break;
    jobs.push(job);
  }
  return { jobs, body: Buffer.from(writeBulk(jobs)), next: index };
}

/** An upper bound that is cheap to compute. Only large jobs are measured exactly. */
function sizeAtMost({ head, payload }: BulkJob): number {
  const bytes = BYTES_PER_CHARACTER * (head.length + payload.length);
  return OVERHEAD_BYTES + (bytes < LIMITS.payloadBytes ? bytes : Buffer.byteLength(head) + Buffer.byteLength(payload));
}
