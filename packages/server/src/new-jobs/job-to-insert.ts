/** A new job between the API and the database. Its payload is JSON from here on. */
import { createHash } from 'node:crypto';
import { type BulkGroup, idOfKey, type NewJob, newId } from '@drover/protocol';
import { type KnownTypes, withDefaults } from './known-types.js';

/** Rarely used fields. The keys are those of the API; drover.insert_jobs reads them by these names. */
export type JobOptions = Omit<NewJob, 'id' | 'type' | 'queue' | 'payload' | 'complete'> & { parentId?: string };

export type JobToInsert = {
  readonly id: string;
  readonly type: string;
  readonly queue: string | undefined;
  /** JSON without line breaks. It may be unparsed: PostgreSQL parses it before the job counts as added. */
  readonly payload: string;
  /** Jobs of one request may share the object. */
  readonly options: JobOptions | undefined;
  /** It needs no defaults, and its payload no check: see newJobShape in the protocol. */
  readonly complete: boolean;
};

/** `sessionId` grants the job to that worker at once. */
export type RowToInsert = { job: JobToInsert; sessionId?: string | undefined };

/** A job that came as JSON and fits its schema. Throws RangeError if its payload is nested too deeply to be written. */
export function toJobToInsert(
  { id, type, queue, payload, complete = false, ...options }: NewJob,
  parentId?: string,
): JobToInsert {
  const all = parentId === undefined ? options : { ...options, parentId };
  return {
    id: id ?? keyedId(type, options.idempotencyKey) ?? newId(),
    type,
    queue,
    payload: JSON.stringify(payload ?? null),
    options: Object.keys(all).length > 0 ? all : undefined,
    complete,
  };
}

/** Undefined without a key. */
export function keyedId(type: string, key: string | undefined): string | undefined {
  return key === undefined ? undefined : idOfKey(type, key, (text) => createHash('sha256').update(text).digest('hex'));
}

/** The jobs of a head line and its payloads. */
export function toJobsToInsert({ head, payloads }: BulkGroup, types: KnownTypes): JobToInsert[] {
  const { ids, type, queue, complete = false, ...rest } = withDefaults(head, types);
  const options = Object.keys(rest).length > 0 ? rest : undefined;
  return ids.map((id, place) => ({ id, type, queue, payload: payloads[place] as string, options, complete }));
}
