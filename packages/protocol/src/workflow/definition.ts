/**
 * A workflow as JSON: what the API takes, and what `defineWorkflow` of the SDK makes. Its graph is in graph.ts.
 *
 * `{"$": "fetch.output.pages"}` in an input is a reference: the name of a step and `output`, or `input`, `item`, `index`,
 * `run.id`, `error`, followed by the keys of a value. A list of strings does the same for keys with dots.
 * `{"$literal": …}` is taken as it is.
 */
import { z } from 'zod';
import { durationSchema } from '../duration.js';
import { listSchema, nameSchema } from '../fields.js';
import { jobDefaultsShape, jobOptionsShape } from '../job-options.js';
import { LIMITS } from '../limits.js';

/** What a reference begins with, if not with a step. */
export const REFERENCE_ROOTS = ['input', 'item', 'index', 'run', 'error'] as const;

const RESERVED: readonly string[] = [...REFERENCE_ROOTS, 'onFailure', 'finally'];

export const stepNameSchema = z
  .string()
  .max(LIMITS.nameLength)
  .regex(/^[A-Za-z_][A-Za-z0-9_-]*$/, 'expected a name of letters, digits, _ and - that starts with a letter or _')
  .refine(
    (name) => !RESERVED.includes(name),
    `expected another name than ${RESERVED.join(', ')}, which mean something else`,
  );

export const EDGE_STATES = ['success', 'failure', 'always'] as const;
export type EdgeState = (typeof EDGE_STATES)[number];

const edgeSchema = z.union([
  stepNameSchema,
  z.strictObject({ step: stepNameSchema, on: z.enum(EDGE_STATES).optional() }),
]);

export const stepOptionsSchema = z.strictObject({ ...jobDefaultsShape, delay: jobOptionsShape.delay });

/** A job beside the graph. */
const extraJobSchema = z.strictObject({
  type: nameSchema,
  input: z.unknown().optional(),
  options: stepOptionsSchema.optional(),
  complete: z.boolean().optional(),
});

const PERCENT = /^(100|[0-9]{1,2})(\.[0-9]+)?%$/;

export const stepSchema = z
  .strictObject({
    /** Exactly one of the three: a job, a run of a workflow, or the first of several branches that succeeded. */
    type: nameSchema.optional(),
    workflow: nameSchema.optional(),
    first: listSchema(stepNameSchema, { min: 2, max: LIMITS.workflowEdges }).optional(),
    input: z.unknown().optional(),
    /** Makes it a map: one job or run for each item of this list. */
    over: z.unknown().optional(),
    concurrency: z.int().min(1).max(LIMITS.mapWindow).optional(),
    /** How many items may fail, or which share of them. */
    tolerate: z
      .union([
        z.int().min(0).max(LIMITS.mapItems),
        z.string().regex(PERCENT, 'expected a number, or a share such as "5%"'),
      ])
      .optional(),
    after: listSchema(edgeSchema, { max: LIMITS.workflowEdges }).optional(),
    if: z.unknown().optional(),
    continueOnFailure: z.boolean().optional(),
    undo: extraJobSchema.optional(),
    options: stepOptionsSchema.optional(),
    /** Whether the options are all; else absent ones come from the registered definition of the type. */
    complete: z.boolean().optional(),
  })
  .superRefine((step, context) => {
    const kinds = [step.type, step.workflow, step.first].filter((kind) => kind !== undefined);
    if (kinds.length !== 1) {
      const message = `expected exactly one of type, workflow and first, got ${kinds.length}`;
      context.addIssue({ code: 'custom', path: ['type'], message });
    }
    for (const name of ['concurrency', 'tolerate'] as const) {
      if (step[name] !== undefined && step.over === undefined) {
        context.addIssue({ code: 'custom', path: [name], message: 'expected only on a step with over' });
      }
    }
    const useless = ['input', 'over', 'continueOnFailure', 'undo', 'options', 'complete', 'after'] as const;
    for (const name of step.first === undefined ? [] : useless) {
      if (step[name] !== undefined) {
        context.addIssue({ code: 'custom', path: [name], message: 'expected nothing beside first' });
      }
    }
  });
export type Step = z.output<typeof stepSchema>;

export const newWorkflowSchema = z.strictObject({
  steps: z
    .record(stepNameSchema, stepSchema)
    .refine((steps) => Object.keys(steps).length > 0, 'expected at least one step')
    .refine(
      (steps) => Object.keys(steps).length <= LIMITS.workflowSteps,
      `expected at most ${LIMITS.workflowSteps} steps`,
    ),
  /** The output of a run, with references. */
  output: z.unknown().optional(),
  onFailure: extraJobSchema.optional(),
  finally: extraJobSchema.optional(),
  /** Whether the other steps stop when one fails. Default: true. */
  failFast: z.boolean().optional(),
  /** Limit for a whole run. */
  timeout: durationSchema.optional(),
});
/** As given by users. */
export type NewWorkflow = z.input<typeof newWorkflowSchema>;
export type ParsedWorkflow = z.output<typeof newWorkflowSchema>;
