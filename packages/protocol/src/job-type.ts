/** A job type, as the workers that offer it define it. Servers keep it for jobs that are added by the name of their type. */
import { z } from 'zod';
import { nameSchema, textSchema } from './fields.js';
import { jobDefaultsShape } from './job-options.js';
import { LIMITS } from './limits.js';

/** As a worker sends it. */
export const typeDefinitionSchema = z.object({
  type: nameSchema,
  defaults: z.object(jobDefaultsShape),
  /** The JSON Schema of the payload as JSON, where the schema library can give one. */
  payloadSchema: textSchema(LIMITS.payloadSchemaLength).optional(),
});
export type TypeDefinition = z.output<typeof typeDefinitionSchema>;
export type TypeDefaults = TypeDefinition['defaults'];

/** Worker names in a list are cut to this many. */
export const SHOWN_WORKERS = 20;

export const jobTypeSchema = z.object({
  type: z.string(),
  /** The options of a job that is added by name and does not bring them. */
  defaults: z.record(z.string(), z.unknown()),
  hasPayloadSchema: z.boolean(),
  /** Live workers that offer it. */
  workers: z.int(),
  /** Live workers define it differently. */
  conflict: z.boolean(),
  /** The definitions of the live workers. `hash` is null where a worker does not say its definition. */
  definitions: z.array(
    z.object({
      hash: z.string().nullable(),
      /** It applies to jobs that are added by name. */
      current: z.boolean(),
      workers: z.int(),
      names: z.array(z.string()).describe(`the first ${SHOWN_WORKERS}`),
    }),
  ),
  firstSeenAt: z.string(),
  /** When the worker of the current definition was started. */
  definedAt: z.string(),
});
export type JobType = z.infer<typeof jobTypeSchema>;

export const jobTypeWithSchemaSchema = jobTypeSchema.extend({ payloadSchema: z.unknown().nullable() });
export type JobTypeWithSchema = z.infer<typeof jobTypeWithSchemaSchema>;
