/** What a server knows of job types: the definitions that workers have registered, for jobs that are added by name. */
import { nearest, type TypeDefaults, type Warning } from '@drover/protocol';

export type KnownType = {
  readonly type: string;
  /** The hash of defaults and schema. Null: its workers do not say how they define it. */
  readonly hash: string | null;
  readonly defaults: TypeDefaults;
  /** The JSON Schema of the payload. Undefined: none. */
  readonly payloadSchema: unknown;
};

export type KnownTypes = ReadonlyMap<string, KnownType>;
/** For jobs that get their defaults in SQL: the children of handlers. */
export const NO_TYPES: KnownTypes = new Map();

/** A job that was added by the name of its type, with the defaults of that type. What it brings wins. */
export function withDefaults<Job extends { type: string; complete?: boolean | undefined }>(
  job: Job,
  types: KnownTypes,
): Job {
  const known = job.complete === true ? undefined : types.get(job.type);
  return known === undefined ? job : { ...known.defaults, ...job };
}

/** Where a job that was added by name belongs, by the defaults of its type. */
export function placedJob(
  job: { type: string; queue?: string | undefined; onFailure?: string | undefined; complete?: boolean | undefined },
  types: KnownTypes,
): { type: string; queue: string | undefined; options: { onFailure: string | undefined } } {
  const { type, queue, onFailure } = withDefaults(job, types);
  return { type, queue, options: { onFailure } };
}

/** Unknown types are told for this many types of one request, and the nearest known type for so many of them. */
const TOLD_TYPES = 20;
const GUESSED_TYPES = 1;

/** What the author of these jobs should know: types that no worker has ever registered. */
export function warningsOf(
  jobs: readonly { type: string; complete: boolean }[],
  types: KnownTypes,
): { warnings?: Warning[] } {
  let unknown: Set<string> | undefined;
  for (const { type, complete } of jobs) {
    if (complete || types.has(type)) continue;
    unknown ??= new Set();
    unknown.add(type);
    if (unknown.size === TOLD_TYPES) break;
  }
  return unknown === undefined
    ? {}
    : { warnings: [...unknown].map((type, place) => unknownType(type, place < GUESSED_TYPES ? types : NO_TYPES)) };
}

/** The same for the job of a schedule. */
export function scheduleWarnings(
  { type, complete }: { type: string; complete?: boolean | undefined },
  types: KnownTypes,
): { warnings?: Warning[] } {
  if (complete === true || types.has(type)) return {};
  const consequence = 'its jobs get no defaults of their type until one has, and the payload was not checked';
  return { warnings: [unknownType(type, types, consequence)] };
}

const JOB_CONSEQUENCE = 'the job got no defaults of its type, and its payload was not checked';

function unknownType(type: string, types: KnownTypes, consequence = JOB_CONSEQUENCE): Warning {
  return { code: 'unknown_type', type, message: `${notRegistered(type, types)}; ${consequence}` };
}

/** With the nearest known type, for a typo. */
export function notRegistered(type: string, types: KnownTypes): string {
  const guess = nearest(type, [...types.keys()]);
  return `no worker has registered the type "${type}"${guess === undefined ? '' : ` (did you mean "${guess}"?)`}`;
}
