/**
 * Many jobs in as few requests as the limits allow. Each request is all or nothing; over one request's
 * limits there are several, sent one after the other so that the jobs keep their order. The next one is
 * encoded while the server works on the one before.
 *
 * When a request fails, the call rejects and the requests before it have taken effect.
 */
import { type Enqueued, LIMITS } from '@drover/protocol';
import { encodeJob, jobText } from '../encode-job.js';
import type { JobDefinition, JobToAdd } from '../job-definition.js';
import { RequestBody } from './request-body.js';

/** Room for the end of the body. */
const MAX_BODY_BYTES = LIMITS.requestBytes - 100;

/** A job that a request has added, or has found under its id. */
export type AddedJob = Enqueued & { definition: JobDefinition };

/** Sends the body of a batch of jobs. `areNew`: their ids were made for this. */
export type SendBatch = (body: Buffer, areNew: boolean) => Promise<readonly Enqueued[]>;

type Chunk = {
  ids: string[];
  definitions: JobDefinition[];
  body: Buffer;
  /** Ids that were made here are new, so only exceptions need an answer. */
  areIdsOurs: boolean;
  next: number;
};

export async function enqueueInBulk(items: readonly JobToAdd[], send: SendBatch): Promise<AddedJob[]> {
  const added: AddedJob[] = [];
  let chunk = items.length > 0 ? await encodeChunk(items, 0) : undefined;
  while (chunk) {
    const underWay = send(chunk.body, chunk.areIdsOurs);
    // Observed at once: it may reject while the next chunk is still being encoded.
    const answered = underWay.then(
      (answers) => ({ answers }),
      (error: unknown) => ({ error }),
    );
    const next = chunk.next < items.length ? encodeChunk(items, chunk.next) : undefined;
    const [answer, nextChunk] = await Promise.all([answered, next]);
    if ('error' in answer) throw answer.error;
    addAnswered(added, chunk, answer.answers);
    chunk = nextChunk;
  }
  return added;
}

/** The jobs are written into the body as they come: kept as texts until it is sent, they made half of this the collector's work. */
async function encodeChunk(items: readonly JobToAdd[], from: number): Promise<Chunk> {
  const ids: string[] = [];
  const definitions: JobDefinition[] = [];
  const body = new RequestBody('{"jobs":[\n');
  let areIdsOurs = true;
  let index = from;
  for (; index < items.length && ids.length < LIMITS.batchJobs; index++) {
    const { job: reference, payload, options } = items[index] as JobToAdd;
    const encoded = encodeJob(reference, payload, options);
    const job = encoded instanceof Promise ? await encoded : encoded;
    // a line for each, which lets the server pass payloads on unread
    const text = ids.length === 0 ? jobText(job) : `,\n${jobText(job)}`;
    if (ids.length > 0 && !body.hasRoomFor(text, MAX_BODY_BYTES)) break;
    body.add(text);
    ids.push(job.id);
    definitions.push(job.definition);
    if (options?.id !== undefined) areIdsOurs = false;
  }
  body.add(areIdsOurs ? '\n],"answer":"existing"}' : '\n]}');
  return { ids, definitions, body: body.toBuffer(), areIdsOurs, next: index };
}

function addAnswered(added: AddedJob[], chunk: Chunk, answers: readonly Enqueued[]): void {
  const { ids, definitions, areIdsOurs } = chunk;
  if (!areIdsOurs && answers.length !== ids.length) {
    throw new Error(`sent ${ids.length} jobs, the server named ${answers.length}`);
  }
  const existed = new Set(answers.filter(({ created }) => !created).map(({ id }) => id));
  ids.forEach((id, index) => {
    const created = areIdsOurs ? !existed.has(id) : (answers[index] as Enqueued).created;
    added.push({ id, created, definition: definitions[index] as JobDefinition });
  });
}
