/** A job as users give it (`NewJob`) and as the API shows it (`Job`). The schemas are the source of the types. */
import { z } from 'zod';
import { backoffSchema } from './backoff.js';
import { durationSchema } from './duration.js';
import { ALL_STATES, type JobState } from './job-lifecycle.js';
import { LIMITS } from './limits.js';
import { isUuid } from './uuid.js';

/** Job types, queues, tags and worker names: no spaces, no control characters, safe in URLs, logs and files. */
const NAME_PATTERN = /^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$/;

export const nameSchema = z
  .string()
  .max(LIMITS.nameLength)
  .regex(NAME_PATTERN, 'expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _');

export const tagSchema = z
  .string()
  .min(1)
  .max(LIMITS.tagLength)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'expected a text without control characters');

export const idSchema = z
  .string()
  .refine(isUuid, 'expected a UUID')
  .transform((id) => id.toLowerCase());

const TIME_EXPECTED = 'expected a time in ISO 8601 such as "2030-01-31T12:00:00Z"';

/** A moment in ISO 8601 with its offset from UTC; years outside 1970–9999 are refused. */
export const timeSchema = z
  .union([z.iso.datetime({ offset: true, error: TIME_EXPECTED }), z.date()], { error: TIME_EXPECTED })
  .transform((value, context) => {
    const time = new Date(value);
    const year = time.getUTCFullYear();
    if (year >= 1970 && year <= 9999) return time.toISOString();
    context.issues.push({ code: 'custom', message: 'expected a time between the years 1970 and 9999', input: value });
    return z.NEVER;
  });

export const DEFAULT_QUEUE = 'default';
export const DEFAULT_MAX_ATTEMPTS = 10;

/** The options a job type can declare as its defaults and an enqueue can override. */
export const jobDefaultsShape = {
  queue: nameSchema.optional(),
  /** Larger numbers start first. */
  priority: z.int().min(-LIMITS.priority).max(LIMITS.priority).optional(),
  /** How often the job may be tried in all. */
  maxAttempts: z.int().min(1).max(LIMITS.maxAttempts).optional(),
  backoff: backoffSchema.optional(),
  /** Limit for one attempt. */
  timeout: durationSchema.optional(),
  /** How long the finished job is kept, in place of the server's setting. */
  retention: durationSchema.optional(),
  tags: z.array(tagSchema).max(LIMITS.tags).optional(),
  /**
   * What becomes of the job when its worker is lost while it runs: `rerun` (default) gives it to another
   * worker; `hold` makes it `unknown` until the worker's journal or a person says how it ended.
   */
  onLost: z.enum(['rerun', 'hold']).optional(),
};

export const newJobShape = {
  /** Made by the client, so that repeating an enqueue is the same job. UUIDv7 is best; any UUID is taken. */
  id: idSchema.optional(),
  type: nameSchema,
  payload: z.unknown().optional(),
  ...jobDefaultsShape,
  delay: durationSchema.optional(),
  runAt: timeSchema.optional(),
  /** Past this moment the whole job is failed, also while it is still queued. */
  expiresAt: timeSchema.optional(),
};

export function eitherDelayOrRunAt<
  Schema extends z.ZodType<{ delay?: number | undefined; runAt?: string | undefined }>,
>(schema: Schema): Schema {
  return schema.refine((job) => job.delay === undefined || job.runAt === undefined, {
    path: ['runAt'],
    message: 'expected either delay or runAt, not both',
  });
}

export const newJobSchema = eitherDelayOrRunAt(z.strictObject(newJobShape));

/** As a client sends it. */
export type NewJobInput = z.input<typeof newJobSchema>;
/** Parsed: durations in milliseconds, times in UTC. */
export type NewJob = z.output<typeof newJobSchema>;

export const jobStateSchema = z.enum(ALL_STATES as [JobState, ...JobState[]]);

export const jobErrorSchema = z.object({
  name: z.string(),
  message: z.string(),
  stack: z.string().optional(),
  /** `timeout`, `lost`, `expired`, `invalid_payload`, `permanent` … ; absent for an ordinary error. */
  code: z.string().optional(),
});
export type JobError = z.infer<typeof jobErrorSchema>;

export const attemptSchema = z.object({
  attempt: z.int(),
  outcome: z.enum(['succeeded', 'failed', 'cancelled', 'lost', 'running']),
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  worker: z.string().nullable(),
  error: jobErrorSchema.nullable(),
});
export type Attempt = z.infer<typeof attemptSchema>;

export const jobSchema = z.object({
  id: z.string(),
  type: z.string(),
  queue: z.string(),
  state: jobStateSchema,
  priority: z.int(),
  payload: z.unknown(),
  attempt: z.int(),
  maxAttempts: z.int(),
  backoff: z.unknown().nullable(),
  timeout: z.int().nullable(),
  retention: z.int().nullable(),
  tags: z.array(z.string()),
  onLost: z.enum(['rerun', 'hold']),
  runAt: z.string(),
  expiresAt: z.string().nullable(),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  cancelRequestedAt: z.string().nullable(),
  worker: z.string().nullable(),
  parentId: z.string().nullable(),
  /** The schedule that made it, and the nominal time it was made for. */
  occurrence: z.object({ schedule: z.string(), nominalAt: z.string() }).nullable(),
  progress: z.unknown().nullable(),
  result: z.unknown().nullable(),
  error: jobErrorSchema.nullable(),
});
export type Job = z.infer<typeof jobSchema>;

export const jobWithAttemptsSchema = jobSchema.extend({ attempts: z.array(attemptSchema) });
export type JobWithAttempts = z.infer<typeof jobWithAttemptsSchema>;

/** What an enqueue answers: the id, and whether this call made the job or found it. */
export const enqueuedSchema = z.object({ id: z.string(), created: z.boolean() });
export type Enqueued = z.infer<typeof enqueuedSchema>;
