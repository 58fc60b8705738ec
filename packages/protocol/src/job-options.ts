/**
 * The options of a job, as one table. The schemas of the API and the bulk format, the options of `defineJob` and of
 * an enqueue in the SDK, and the flags of the command line are derived from it; tests compare the SQL functions and
 * the reference pages with it.
 */
import { z } from 'zod';
import { backoffSchema } from './backoff.js';
import { type Duration, durationSchema } from './duration.js';
import { idempotencyKeySchema, listSchema, nameSchema, ownIdSchema, tagSchema, timeSchema } from './fields.js';
import { LIMITS } from './limits.js';

type JobOption = {
  readonly schema: z.ZodType;
  /** Whether a job type can declare it as a default of its jobs. The other options concern a single job. */
  readonly isDefault: boolean;
  /**
   * Whether a column of the job's row has its meaning, because SQL reads it. Any other option stays in the column
   * `options` as it was given, from where it reaches the worker and the API.
   */
  readonly hasColumn: boolean;
  readonly flag: string;
  /** How the text of the flag is converted to the value. */
  readonly kind: 'text' | 'number' | 'duration' | 'list' | 'backoff';
  /** For the help of the command line. */
  readonly meaning: string;
};

export const JOB_OPTIONS = {
  /** The queue of the job. Default: `default`. */
  queue: {
    schema: nameSchema,
    isDefault: true,
    hasColumn: true,
    flag: '--queue <name>',
    kind: 'text',
    meaning: 'queue to add it to',
  },
  /** Larger numbers start first. */
  priority: {
    schema: z.int().min(-LIMITS.priority).max(LIMITS.priority),
    isDefault: true,
    hasColumn: true,
    flag: '--priority <number>',
    kind: 'number',
    meaning: 'larger numbers start first',
  },
  /** The earliest start of the job. */
  delay: {
    schema: durationSchema,
    isDefault: false,
    hasColumn: true,
    flag: '--delay <duration>',
    kind: 'duration',
    meaning: 'start it no sooner than this, e.g. 30s',
  },
  /** Alternative to `delay`. */
  runAt: {
    schema: timeSchema,
    isDefault: false,
    hasColumn: true,
    flag: '--run-at <time>',
    kind: 'text',
    meaning: 'start it no sooner than this, e.g. 2030-01-31T12:00:00Z',
  },
  /** Total number of attempts. */
  maxAttempts: {
    schema: z.int().min(1).max(LIMITS.maxAttempts),
    isDefault: true,
    hasColumn: true,
    flag: '--max-attempts <number>',
    kind: 'number',
    meaning: 'how many attempts it gets in total',
  },
  /** How long to wait between attempts. */
  backoff: {
    schema: backoffSchema,
    isDefault: true,
    hasColumn: false,
    flag: '--backoff <backoff>',
    kind: 'backoff',
    meaning: 'wait between attempts: fixed:5s, list:1s,10s,1m, exponential:1s, or JSON',
  },
  /** Time limit of one attempt. */
  timeout: {
    schema: durationSchema,
    isDefault: true,
    hasColumn: false,
    flag: '--timeout <duration>',
    kind: 'duration',
    meaning: 'limit for one attempt',
  },
  /** The job fails if it has not finished by this time, even if it is still queued. */
  expiresAt: {
    schema: timeSchema,
    isDefault: false,
    hasColumn: true,
    flag: '--expires-at <time>',
    kind: 'text',
    meaning: 'fail it if it has not finished by this time',
  },
  /** How long the finished job is kept. Overrides the server's setting. */
  retention: {
    schema: durationSchema,
    isDefault: true,
    hasColumn: false,
    flag: '--retention <duration>',
    kind: 'duration',
    meaning: 'how long to keep it when finished',
  },
  /** Words to find the job by. */
  tags: {
    schema: listSchema(tagSchema, { max: LIMITS.tags }),
    isDefault: true,
    hasColumn: true,
    flag: '--tag <tag>',
    kind: 'list',
    meaning: 'tag; may be repeated',
  },
  /**
   * What happens to a job whose worker is lost while it runs: `rerun` (default) lets another worker run it, `hold`
   * makes it `unknown` until its worker's journal or a person says how it ended. Only `hold` is absolute.
   */
  onLost: {
    schema: z.enum(['rerun', 'hold']),
    isDefault: true,
    hasColumn: true,
    flag: '--on-lost <policy>',
    kind: 'text',
    meaning: 'when its worker is lost: rerun, or hold it for a person',
  },
  /** The type of a job that is added when this one has failed for good, with this one in its payload. */
  onFailure: {
    schema: nameSchema,
    isDefault: true,
    hasColumn: false,
    flag: '--on-failure <type>',
    kind: 'text',
    meaning: 'type of a job to add when it has failed for good',
  },
  /** The job's name in the application, such as `order-4711`: the same key and type is the same job. Instead of `id`. */
  idempotencyKey: {
    schema: idempotencyKeySchema,
    isDefault: false,
    hasColumn: false,
    flag: '--idempotency-key <text>',
    kind: 'text',
    meaning: 'the same key and type again is the same job',
  },
  /** Created by the client, so that a repeated enqueue is the same job. UUIDv7 is best; any UUID is accepted. */
  id: {
    schema: ownIdSchema,
    isDefault: false,
    hasColumn: true,
    flag: '--id <uuid>',
    kind: 'text',
    meaning: 'id to give it; the same id again is the same job',
  },
} as const satisfies Record<string, JobOption>;

type Table = typeof JOB_OPTIONS;
export type JobOptionName = keyof Table;
type StoredOptionName = {
  [Name in JobOptionName]: Table[Name]['hasColumn'] extends true ? never : Name;
}[JobOptionName];
type DefaultName = { [Name in JobOptionName]: Table[Name]['isDefault'] extends true ? Name : never }[JobOptionName];

/** A duration has a narrower type than its schema: "5 minutes" does not compile. */
type Given<Name extends JobOptionName> = Table[Name]['kind'] extends 'duration'
  ? Duration
  : z.input<Table[Name]['schema']>;

/** The options of `defineJob`, as given by users. */
export type JobDefaultsInput = {
  -readonly [Name in keyof Table as Name extends DefaultName ? Name : never]?: Given<Name> | undefined;
};
/** The options of an enqueue, as given by users. */
export type JobOptionsInput = { -readonly [Name in keyof Table]?: Given<Name> | undefined };

export const JOB_OPTION_NAMES = Object.keys(JOB_OPTIONS) as JobOptionName[];
export const JOB_DEFAULT_NAMES = JOB_OPTION_NAMES.filter((name): name is DefaultName => JOB_OPTIONS[name].isDefault);
/** The options that have no column of their own. */
export const STORED_OPTION_NAMES = JOB_OPTION_NAMES.filter(
  (name): name is StoredOptionName => !JOB_OPTIONS[name].hasColumn,
);

type Shape<Names extends JobOptionName> = { [Name in Names]: z.ZodOptional<Table[Name]['schema']> };
/** A parsed duration is a number. */
type Stored<Name extends JobOptionName> = Table[Name]['kind'] extends 'duration' ? z.ZodInt : Table[Name]['schema'];
type StoredShape = { [Name in StoredOptionName]: z.ZodNullable<Stored<Name>> };

// the entries have the given names, which TypeScript cannot infer through fromEntries
const shapeOf = <Name extends JobOptionName>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, JOB_OPTIONS[name].schema.optional()])) as Shape<Name>;

/** As given for a new job, for a job type, and as the worker gets them. */
export const jobOptionsShape = shapeOf(JOB_OPTION_NAMES);
export const jobDefaultsShape = shapeOf(JOB_DEFAULT_NAMES);
export const storedOptionsShape = shapeOf(STORED_OPTION_NAMES);
/** As the API shows them. */
export const shownOptionsShape = Object.fromEntries(
  STORED_OPTION_NAMES.map((name) => {
    const { schema, kind } = JOB_OPTIONS[name];
    return [name, (kind === 'duration' ? z.int() : schema).nullable()];
  }),
) as StoredShape;
