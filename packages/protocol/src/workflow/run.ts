/** Workflows and runs as the API shows them, and what starts a run. */
import { z } from 'zod';
import { durationSchema } from '../duration.js';
import { idSchema, nameSchema } from '../fields.js';
import { jobOptionsShape } from '../job-options.js';
import { LIMITS } from '../limits.js';
import { EDGE_STATES, stepNameSchema } from './definition.js';

export const RUN_STATES = ['running', 'succeeded', 'failed', 'cancelled'] as const;
export type RunState = (typeof RUN_STATES)[number];

export const STEP_STATES = [
  ...['pending', 'waiting', 'blocked', 'scheduled', 'ready', 'running', 'unknown'],
  ...['succeeded', 'failed', 'cancelled', 'skipped'],
] as const;

export const SKIP_STEP_REASONS = ['unmet', 'condition', 'stopped'] as const;

export const workflowSchema = z.object({
  name: z.string(),
  version: z.int(),
  steps: z.int(),
  registeredAt: z.string(),
});
export type Workflow = z.infer<typeof workflowSchema>;

export const workflowWithDefinitionSchema = workflowSchema.extend({
  definition: z.unknown().describe('the body that registered it'),
});

export const newRunSchema = z.strictObject({
  workflow: nameSchema,
  /** Default: the version that was registered last. */
  version: z.int().min(1).max(LIMITS.int).optional(),
  input: z.unknown().optional(),
  /** The same id again is the same run. */
  id: idSchema.optional(),
  /** The priority of its jobs, unless a step has its own. */
  priority: jobOptionsShape.priority,
  /** Limit for the whole run. Default: that of the workflow. */
  timeout: durationSchema.optional(),
});
export type NewRun = z.output<typeof newRunSchema>;
export type NewRunInput = z.input<typeof newRunSchema>;

const failureSchema = z.object({
  step: z.string().nullable().describe('null: of the run itself'),
  error: z.object({ name: z.string(), message: z.string(), code: z.string().optional() }).loose(),
});

export const runSchema = z.object({
  id: z.string(),
  workflow: z.string(),
  version: z.int(),
  state: z.enum(RUN_STATES),
  ending: z.enum(['failed', 'cancelled']).nullable().describe('how a running one will end, once that is certain'),
  priority: z.int(),
  error: failureSchema.nullable(),
  parent: z.object({ run: z.string(), step: z.string(), item: z.int().nullable() }).nullable(),
  repeats: z.string().nullable().describe('the run that this one repeats from a step on'),
  tries: z.int().describe('1, and one more for each retry'),
  createdAt: z.string(),
  finishedAt: z.string().nullable(),
  expiresAt: z.string().nullable(),
});
export type Run = z.infer<typeof runSchema>;

export const runStepSchema = z.object({
  name: z.string(),
  role: z.enum(['step', 'undo', 'onFailure', 'finally']),
  /** The type of its job, or the workflow of its run; null: it merges branches. */
  type: z.string().nullable(),
  workflow: z.string().nullable(),
  after: z.array(z.object({ step: z.string(), on: z.enum(EDGE_STATES) })),
  state: z.enum(STEP_STATES),
  reason: z.enum(SKIP_STEP_REASONS).nullable().describe('why it was skipped'),
  error: z.unknown().nullable(),
  /** The latest of its jobs, or of its runs. Null for a map. */
  jobId: z.string().nullable(),
  runId: z.string().nullable(),
  attempt: z.int().nullable(),
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  items: z
    .object({ total: z.int(), running: z.int(), ended: z.int(), failed: z.int() })
    .nullable()
    .describe('of a map, in this try'),
});
export type RunStep = z.infer<typeof runStepSchema>;

export const runWithStepsSchema = runSchema.extend({
  input: z.unknown().nullable(),
  output: z.unknown().nullable(),
  steps: z.array(runStepSchema),
});
export type RunWithSteps = z.infer<typeof runWithStepsSchema>;

export const repeatRunSchema = z.strictObject({ from: stepNameSchema, id: idSchema.optional() });
