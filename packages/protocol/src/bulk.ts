/**
 * The bulk format: new jobs as lines of JSON, so that a server passes payloads on without parsing them.
 *
 * ```
 * {"type":"email.send","queue":"mail","ids":["0198…","0198…"]}
 * {"to":"a@example.com"}
 * {"to":"b@example.com"}
 * {"type":"report.make","priority":5,"ids":["0198…"]}
 * {"month":"2026-01"}
 * ```
 * A head line is a job without its payload, with the ids of the jobs it describes. One line per id follows: the
 * payloads, in the order of the ids. Then comes the next head. The body is all or nothing, like any batch.
 */
import { z } from 'zod';
import { invalidInput } from './describe-issues.js';
import { DroverError } from './errors.js';
import { idSchema, listSchema } from './fields.js';
import { eitherDelayOrRunAt, newJobShape } from './job.js';
import { LIMITS } from './limits.js';

export const BULK_MEDIA_TYPE = 'application/x-ndjson';

const { id: _, payload: __, ...headShape } = newJobShape;
export const bulkHeadSchema = eitherDelayOrRunAt(
  z.strictObject({
    ...headShape,
    ids: listSchema(idSchema, { min: 1, max: LIMITS.batchJobs, checkLength: checkBatchSize }),
  }),
);
export type BulkHead = z.output<typeof bulkHeadSchema>;
export type BulkGroup = { head: BulkHead; payloads: string[] };

/** A job to be sent. */
export type BulkJob = {
  id: string;
  /** The job without id and payload, as the inside of a JSON object. Jobs with the same text share a head line. */
  head: string;
  /** JSON. */
  payload: string;
};

export function writeBulk(jobs: readonly BulkJob[]): string {
  const lines: string[] = [];
  for (let start = 0; start < jobs.length; ) {
    const { head } = jobs[start] as BulkJob;
    let end = start + 1;
    while (jobs[end]?.head === head) end += 1;
    const group = jobs.slice(start, end);
    lines.push(`{${head},"ids":["${group.map(({ id }) => id).join('","')}"]}`);
    for (const { payload } of group) lines.push(payload);
    start = end;
  }
  return lines.join('\n');
}

/** Throws DroverError. Payloads are not parsed; the database checks later whether they are JSON. */
export function readBulk(text: string): BulkGroup[] {
  const groups: BulkGroup[] = [];
  let jobs = 0;
  for (let from = 0; from < text.length; ) {
    const [line, next] = lineAt(text, from);
    const head = readHead(line, jobs);
    const payloads: string[] = [];
    from = next;
    for (const _id of head.ids) {
      const [payload, after] = lineAt(text, from);
      if (payload === '') throw missingPayload(jobs + payloads.length);
      payloads.push(payload);
      from = after;
    }
    jobs += payloads.length;
    checkBatchSize(jobs);
    groups.push({ head, payloads });
  }
  return groups;
}

/** The line that starts at `from`, and the start of the next one. */
function lineAt(text: string, from: number): [line: string, next: number] {
  const end = text.indexOf('\n', from);
  return end < 0 ? [text.slice(from), text.length] : [text.slice(from, end), end + 1];
}

/** `place`: the index of the first job that it describes. */
function readHead(line: string, place: number): BulkHead {
  if (line.length > LIMITS.bodyBytes) {
    const message = `the head line of jobs[${place}]: expected at most ${LIMITS.bodyBytes} characters, got ${line.length}`;
    throw new DroverError('request_too_large', message, { limit: LIMITS.bodyBytes });
  }
  let given: unknown;
  try {
    given = JSON.parse(line);
  } catch (error) {
    throw new DroverError(
      'invalid_json',
      `the head line of jobs[${place}] is not valid JSON: ${(error as Error).message}`,
    );
  }
  const parsed = bulkHeadSchema.safeParse(given);
  if (!parsed.success) throw invalidInput(parsed.error, given, { place: `jobs[${place}]` });
  return parsed.data;
}

function missingPayload(place: number): DroverError {
  const field = `jobs[${place}].payload`;
  const message = 'expected a line of JSON text for each id of its head line';
  return new DroverError('invalid_request', `${field}: ${message}`, { issues: [{ field, message }] });
}

/** Throws if there are too many for one request. */
export function checkBatchSize(jobs: number): void {
  if (jobs <= LIMITS.batchJobs) return;
  const message = `jobs: expected at most ${LIMITS.batchJobs} jobs in one request, got ${jobs} or more`;
  throw new DroverError('batch_too_large', message, { limit: LIMITS.batchJobs });
}
