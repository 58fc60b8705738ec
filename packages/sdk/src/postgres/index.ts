/**
 * Adds jobs inside the application's own transaction: they exist if it commits, and only then. The SDK brings no
 * driver; pass a function that runs one statement on the transaction.
 *
 * Parameters are sent as text and cast in the statement: a driver that is told `json` (postgres.js) would encode the
 * text a second time.
 */
import { LIMITS } from '@drover/protocol';
import { type EncodedJob, encodeJob, encodeJobAt, jobsToAdd, jobText } from '../encode-job.js';
import type { JobReference, JobsToAdd, JobToAdd, PayloadArguments } from '../job-definition.js';

/** Runs one statement with `$1`-style parameters on the connection that holds the transaction. */
export type Query = (sql: string, params: unknown[]) => Promise<unknown>;

/** What is known before the commit. */
export type PendingJob = { readonly id: string; readonly type: string };

const ENQUEUE = 'select drover.enqueue($1::text, $2::text::json, $3::text::json)';
const ENQUEUE_MANY = 'select drover.enqueue_many($1::text::json)';
/** Characters of one statement's parameter. */
const MAX_STATEMENT_LENGTH = 16 * 1024 * 1024;

/** Adds one job. */
export async function enqueueWith<Input>(
  query: Query,
  reference: JobReference<Input>,
  ...[payload, options]: PayloadArguments<Input>
): Promise<PendingJob> {
  const job = await encodeJob(reference, payload, options);
  await query(ENQUEUE, [job.definition.type, job.payload ?? null, optionsText(job)]);
  return pending(job);
}

/** Adds many jobs, in order. All of them are committed or rolled back with the transaction. */
export function enqueueManyWith<Input>(
  query: Query,
  job: JobReference<Input>,
  payloads: readonly NoInfer<Input>[],
): Promise<PendingJob[]>;
export function enqueueManyWith<References extends readonly JobReference[]>(
  query: Query,
  jobs: readonly [...JobsToAdd<References>],
): Promise<PendingJob[]>;
export async function enqueueManyWith(
  query: Query,
  first: JobReference | readonly JobToAdd[],
  payloads: readonly unknown[] = [],
): Promise<PendingJob[]> {
  const added: PendingJob[] = [];
  let texts: string[] = [];
  let length = 0;
  const jobs = jobsToAdd(first, payloads);
  for (let index = 0; index < jobs.length; index++) {
    const job = await encodeJobAt(jobs, index);
    const text = jobText(job);
    if (texts.length >= LIMITS.batchJobs || length + text.length > MAX_STATEMENT_LENGTH) {
      await query(ENQUEUE_MANY, [`[${texts.join(',')}]`]);
      texts = [];
      length = 0;
    }
    texts.push(text);
    length += text.length;
    added.push(pending(job));
  }
  if (texts.length > 0) await query(ENQUEUE_MANY, [`[${texts.join(',')}]`]);
  return added;
}

/** The job without its type and payload, which are parameters of their own. */
function optionsText({ id, head }: EncodedJob): string {
  const { type: _type, ...options } = JSON.parse(`{${head}}`) as Record<string, unknown>;
  return JSON.stringify({ ...options, id });
}

function pending(job: EncodedJob): PendingJob {
  return { id: job.id, type: job.definition.type };
}
