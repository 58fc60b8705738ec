/**
 * Many jobs in as few requests as the limits allow. Each request is all or nothing; over one request's
 * limits there are several, sent one after the other so that the jobs keep their order. The next one is
 * encoded while the server works on the one before.
 *
 * When a request fails, the call rejects and the requests before it have taken effect.
 */
import { type Enqueued, LIMITS } from '@drover/protocol';
import { type EncodedJob, type EnqueueOptions, encodeJob, type JobReference, jobText } from '../encode-job.js';
import type { SendJobs } from './gatherer.js';
import { JobHandle } from './job-handle.js';

/** Characters of one request. A character takes up to three bytes in UTF-8. */
const MAX_REQUEST_LENGTH = Math.floor(LIMITS.requestBytes / 3);

export type JobToAdd = { job: JobReference; payload?: unknown; options?: EnqueueOptions | undefined };

type Chunk = { jobs: EncodedJob[]; texts: string[]; next: number };

export async function enqueueInBulk(items: readonly JobToAdd[], send: SendJobs): Promise<JobHandle<unknown>[]> {
  const handles: JobHandle<unknown>[] = [];
  let chunk = await encodeChunk(items, 0);
  while (chunk.jobs.length > 0) {
    const underWay = send(chunk.texts);
    // Observed at once: it may reject while the next chunk is still being encoded.
    const answered = underWay.then(
      (answers) => ({ answers }),
      (error: unknown) => ({ error }),
    );
    const [answer, next] = await Promise.all([answered, encodeChunk(items, chunk.next)]);
    if ('error' in answer) throw answer.error;
    addHandles(handles, chunk.jobs, answer.answers);
    chunk = next;
  }
  return handles;
}

async function encodeChunk(items: readonly JobToAdd[], from: number): Promise<Chunk> {
  const jobs: EncodedJob[] = [];
  const texts: string[] = [];
  let length = 0;
  let index = from;
  for (; index < items.length && jobs.length < LIMITS.batchJobs; index++) {
    const item = items[index] as JobToAdd;
    const encoded = encodeJob(item.job, item.payload, item.options);
    const job = encoded instanceof Promise ? await encoded : encoded;
    const text = jobText(job);
    if (jobs.length > 0 && length + text.length > MAX_REQUEST_LENGTH) break;
    jobs.push(job);
    texts.push(text);
    length += text.length;
  }
  return { jobs, texts, next: index };
}

function addHandles(handles: JobHandle<unknown>[], jobs: readonly EncodedJob[], answers: readonly Enqueued[]): void {
  if (answers.length !== jobs.length) throw new Error(`sent ${jobs.length} jobs, the server named ${answers.length}`);
  for (let index = 0; index < jobs.length; index++) {
    const job = jobs[index] as EncodedJob;
    const answer = answers[index] as Enqueued;
    handles.push(new JobHandle(answer.id, answer.created, job.definition));
  }
}
