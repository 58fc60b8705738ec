/**
 * The options of a job, in one table. From it come the schemas of the API and the bulk format, the options of `defineJob` and of an
 * enqueue in the SDK, and the flags of the command line; tests compare the SQL functions and the reference pages with it.
 */
import { z } from 'zod';
import { backoffSchema } from './backoff.js';
import { type Duration, durationSchema } from './duration.js';
import { idSchema, nameSchema, tagSchema, timeSchema } from './fields.js';
import { LIMITS } from './limits.js';

type JobOption = {
  readonly schema: z.ZodType;
  /** A job type can declare it as a default of its jobs. The others are about one job alone. */
  readonly isDefault: boolean;
  readonly flag: string;
  /** How the text of the flag becomes the value. */
  readonly kind: 'text' | 'number' | 'duration' | 'list' | 'backoff';
  /** For the help of the command line. */
  readonly meaning: string;
};

export const JOB_OPTIONS = {
  /** The queue of the job. Default: `default`. */
  queue: { schema: nameSchema, isDefault: true, flag: '--queue <name>', kind: 'text', meaning: 'queue to add it to' },
  /** Larger numbers start first. */
  priority: {
    schema: z.int().min(-LIMITS.priority).max(LIMITS.priority),
    isDefault: true,
    flag: '--priority <number>',
    kind: 'number',
    meaning: 'larger numbers start first',
  },
  /** Start it no sooner than this. */
  delay: {
    schema: durationSchema,
    isDefault: false,
    flag: '--delay <duration>',
    kind: 'duration',
    meaning: 'start it no sooner than this, e.g. 30s',
  },
  /** Instead of `delay`. */
  runAt: {
    schema: timeSchema,
    isDefault: false,
    flag: '--run-at <time>',
    kind: 'text',
    meaning: 'start it no sooner than this, e.g. 2030-01-31T12:00:00Z',
  },
  /** How many attempts the job gets in total. */
  maxAttempts: {
    schema: z.int().min(1).max(LIMITS.maxAttempts),
    isDefault: true,
    flag: '--max-attempts <number>',
    kind: 'number',
    meaning: 'how many attempts it gets in total',
  },
  /** How long to wait between attempts. */
  backoff: {
    schema: backoffSchema,
    isDefault: true,
    flag: '--backoff <backoff>',
    kind: 'backoff',
    meaning: 'wait between attempts: fixed:5s, list:1s,10s,1m, exponential:1s, or JSON',
  },
  /** Limit for one attempt. */
  timeout: {
    schema: durationSchema,
    isDefault: true,
    flag: '--timeout <duration>',
    kind: 'duration',
    meaning: 'limit for one attempt',
  },
  /** At this time the job fails if it has not finished, also while it is still queued. */
  expiresAt: {
    schema: timeSchema,
    isDefault: false,
    flag: '--expires-at <time>',
    kind: 'text',
    meaning: 'fail it if it has not finished by this time',
  },
  /** How long the finished job is kept, in place of the server's setting. */
  retention: {
    schema: durationSchema,
    isDefault: true,
    flag: '--retention <duration>',
    kind: 'duration',
    meaning: 'how long to keep it when finished',
  },
  /** Words to find it by. */
  tags: {
    schema: z.array(tagSchema).max(LIMITS.tags),
    isDefault: true,
    flag: '--tag <tag>',
    kind: 'list',
    meaning: 'tag; may be repeated',
  },
  /**
   * What happens to a job whose worker is lost while it runs: `rerun` (default) gives it to another worker, `hold` makes it
   * `unknown` until its worker's journal or a person says how it ended. Only `hold` is absolute.
   */
  onLost: {
    schema: z.enum(['rerun', 'hold']),
    isDefault: true,
    flag: '--on-lost <policy>',
    kind: 'text',
    meaning: 'when its worker is lost: rerun, or hold it for a person',
  },
  /** Made by the client, so that repeating an enqueue is the same job. UUIDv7 is best; any UUID is taken. */
  id: {
    schema: idSchema,
    isDefault: false,
    flag: '--id <uuid>',
    kind: 'text',
    meaning: 'id to give it; the same id again is the same job',
  },
} as const satisfies Record<string, JobOption>;

type Table = typeof JOB_OPTIONS;
export type JobOptionName = keyof Table;
type DefaultName = { [Name in JobOptionName]: Table[Name]['isDefault'] extends true ? Name : never }[JobOptionName];

/** A duration is typed closer than its schema: "5 minutes" does not compile. */
type Given<Name extends JobOptionName> = Table[Name]['kind'] extends 'duration'
  ? Duration
  : z.input<Table[Name]['schema']>;

/** What `defineJob` takes, as users give it. */
export type JobDefaultsInput = {
  -readonly [Name in keyof Table as Name extends DefaultName ? Name : never]?: Given<Name> | undefined;
};
/** What an enqueue takes, as users give it. */
export type JobOptionsInput = { -readonly [Name in keyof Table]?: Given<Name> | undefined };

export const JOB_OPTION_NAMES = Object.keys(JOB_OPTIONS) as JobOptionName[];
export const JOB_DEFAULT_NAMES = JOB_OPTION_NAMES.filter((name): name is DefaultName => JOB_OPTIONS[name].isDefault);

type Shape<Names extends JobOptionName> = { [Name in Names]: z.ZodOptional<Table[Name]['schema']> };

export const jobOptionsShape = shapeOf(JOB_OPTION_NAMES);
export const jobDefaultsShape = shapeOf(JOB_DEFAULT_NAMES);

function shapeOf<Name extends JobOptionName>(names: readonly Name[]): Shape<Name> {
  // the entries are those of the names, which TypeScript cannot follow through fromEntries
  return Object.fromEntries(names.map((name) => [name, JOB_OPTIONS[name].schema.optional()])) as Shape<Name>;
}
