/** A job as users give it (`NewJob`) and as the API shows it (`Job`). The schemas are the source of the types. */
import { z } from 'zod';
import { nameSchema } from './fields.js';
import { ALL_STATES, type JobState } from './job-lifecycle.js';
import { jobOptionsShape, shownOptionsShape, storedOptionsShape } from './job-options.js';

export const DEFAULT_QUEUE = 'default';
export const DEFAULT_MAX_ATTEMPTS = 10;

export const newJobShape = {
  type: nameSchema,
  payload: z.unknown().optional(),
  /**
   * The job was added through a definition: its payload has been checked, and no option is missing. A job without it was
   * added by the name of its type, and gets what that type's definition says.
   */
  complete: z.boolean().optional(),
  ...jobOptionsShape,
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

/** As sent by a client. */
export type NewJobInput = z.input<typeof newJobSchema>;
/** Parsed: durations in milliseconds, times in UTC. */
export type NewJob = z.output<typeof newJobSchema>;

export const jobStateSchema = z.enum(ALL_STATES as [JobState, ...JobState[]]);

export const jobErrorSchema = z.object({
  name: z.string(),
  message: z.string(),
  stack: z.string().optional(),
  /** `timeout`, `lost`, `expired`, `invalid_payload`, `permanent` and so on. Absent for an ordinary error. */
  code: z.string().optional(),
});
export type JobError = z.infer<typeof jobErrorSchema>;

export const attemptSchema = z.object({
  attempt: z.int(),
  /** `released`: stopped by the shutdown of its worker; it uses up no attempt. */
  outcome: z.enum(['succeeded', 'failed', 'cancelled', 'lost', 'released', 'running']),
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  worker: z.string().nullable(),
  error: jobErrorSchema.nullable(),
});
export type Attempt = z.infer<typeof attemptSchema>;

/** The schedule that created the job, and the nominal time of the occurrence. */
const jobOccurrenceSchema = z.object({ schedule: z.string(), nominalAt: z.string() });

/** The run of a workflow that the job belongs to, the step that it is, and the item of a map. */
const jobRunSchema = z.object({ id: z.string(), step: z.string(), item: z.int().nullable() });
export type JobRun = z.infer<typeof jobRunSchema>;

/** What a worker reads of the options of a job. */
export const assignedOptionsSchema = z.object({
  ...storedOptionsShape,
  onLost: jobOptionsShape.onLost,
  occurrence: jobOccurrenceSchema.optional(),
  runId: z.string().optional(),
  step: z.string().optional(),
  item: z.int().optional(),
});

/** From the options of a job as they are stored and assigned. Undefined: the job belongs to no run. */
export function runOfOptions(
  options: Pick<z.infer<typeof assignedOptionsSchema>, 'runId' | 'step' | 'item'>,
): JobRun | undefined {
  const { runId, step, item = null } = options;
  return runId === undefined || step === undefined ? undefined : { id: runId, step, item };
}

export const jobSchema = z.object({
  id: z.string(),
  type: z.string(),
  queue: z.string(),
  state: jobStateSchema,
  priority: z.int(),
  payload: z.unknown(),
  attempt: z.int(),
  maxAttempts: z.int(),
  ...shownOptionsShape,
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
  occurrence: jobOccurrenceSchema.nullable(),
  run: jobRunSchema.nullable(),
  progress: z.unknown().nullable(),
  result: z.unknown().nullable(),
  error: jobErrorSchema.nullable(),
});
export type Job = z.infer<typeof jobSchema>;

/** The parts of a job that may be large. Lists have them only if the caller asks for them. */
export const LARGE_JOB_PARTS = ['payload', 'result', 'progress', 'stack'] as const;
export type LargeJobPart = (typeof LARGE_JOB_PARTS)[number];

/** A job in a list. */
export const listedJobSchema = jobSchema.extend({
  payload: z.unknown().optional(),
  progress: z.unknown().optional(),
  result: z.unknown().optional(),
});
export type ListedJob = z.infer<typeof listedJobSchema>;

/** The answer to a cancel. */
export const cancelledJobSchema = jobSchema.extend({
  /** It was cancelled before this call, which has changed nothing. */
  alreadyCancelled: z.boolean(),
});
export type CancelledJob = z.infer<typeof cancelledJobSchema>;

export const jobWithAttemptsSchema = jobSchema.extend({ attempts: z.array(attemptSchema) });
export type JobWithAttempts = z.infer<typeof jobWithAttemptsSchema>;

/** What the author of an accepted request should know. */
const warningSchema = z.object({ code: z.enum(['unknown_type']), type: z.string(), message: z.string() });
export type Warning = z.infer<typeof warningSchema>;
/** Absent: none. */
export const warningsShape = { warnings: z.array(warningSchema).optional() };

/** The answer to an enqueue: the id, and whether this call created the job. */
export const enqueuedSchema = z.object({ id: z.string(), created: z.boolean() });
export type Enqueued = z.infer<typeof enqueuedSchema>;
