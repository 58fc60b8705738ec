/** Tokens: who may call a server, and what for. */
import { z } from 'zod';
import { durationSchema } from './duration.js';
import { listSchema, nameSchema } from './fields.js';
import { LIMITS } from './limits.js';

/** A token has one role; `admin` may do everything. */
export const ROLES = ['viewer', 'operator', 'admin', 'client', 'enqueue', 'worker', 'auditor'] as const;
export type Role = (typeof ROLES)[number];

/** Marks a token of the database, also for scanners that look for secrets: `drv_`, its id, `_`, 256 random bits. */
export const TOKEN_PREFIX = 'drv_';

const NEVER = 'never';
/** How long a token is valid: in milliseconds; null: it never expires. */
const lifetimeSchema = z
  .union([z.literal(NEVER), durationSchema], { error: 'expected "never" or a duration such as "90d"' })
  .transform((value) => (value === NEVER ? null : value))
  .refine((ms) => ms === null || ms >= 1000, 'expected "never" or a duration of at least 1 s');

const DEFAULT_LIFETIME = '90d';
const DEFAULT_OVERLAP = '1h';

/** The name of a queue or a type, in which `*` stands for any characters. */
const patternSchema = z
  .string()
  .max(LIMITS.nameLength)
  .regex(
    /^[A-Za-z0-9_*][A-Za-z0-9_.:/@*-]*$/,
    'expected a name in which * stands for any characters, such as "mail.*"',
  );
const patternsSchema = listSchema(patternSchema, { min: 1, max: LIMITS.scopePatterns });

export const newTokenSchema = z
  .strictObject({
    name: nameSchema,
    role: z.enum(ROLES),
    expires: lifetimeSchema.prefault(DEFAULT_LIFETIME),
    /** The queues and types that it may use. Absent: all. */
    queues: patternsSchema.optional(),
    types: patternsSchema.optional(),
    /** Whether it may read payloads, results, progress and errors. */
    payloads: z.boolean().default(true),
  })
  .check((context) => {
    const { role, queues, types, payloads } = context.value;
    const refuse = (field: string, message: string) =>
      context.issues.push({ code: 'custom', path: [field], message, input: context.value[field as 'role'] });
    const scope = queues ? 'queues' : types ? 'types' : undefined;
    if (role === 'admin' && scope)
      refuse(scope, 'expected none, because a token with the role admin may do everything');
    if (role === 'admin' && !payloads) refuse('payloads', 'expected true, because the role admin may do everything');
    if (role === 'worker' && !payloads) refuse('payloads', 'expected true, because workers need payloads');
  });
export type NewToken = z.output<typeof newTokenSchema>;
export type NewTokenInput = z.input<typeof newTokenSchema>;

export const rotateTokenSchema = z
  .strictObject({
    /** How long the present secret stays valid beside the new one. */
    overlap: durationSchema.prefault(DEFAULT_OVERLAP),
    /** Absent: as long as before, from now. */
    expires: lifetimeSchema.optional(),
  })
  .prefault({});
export type RotateToken = z.output<typeof rotateTokenSchema>;
export type RotateTokenInput = z.input<typeof rotateTokenSchema>;

export const TOKEN_KINDS = ['token', 'configured', 'certificate'] as const;
export const TOKEN_STATES = ['active', 'expired', 'revoked'] as const;

export const tokenSchema = z.object({
  /** Null for those of the server's configuration, which cannot be changed over the API. */
  id: z.string().nullable(),
  kind: z.enum(TOKEN_KINDS),
  name: z.string(),
  role: z.enum(ROLES),
  state: z.enum(TOKEN_STATES),
  /** Null: all. */
  queues: z.array(z.string()).nullable(),
  types: z.array(z.string()).nullable(),
  payloads: z.boolean(),
  createdBy: z.string().nullable(),
  createdAt: z.string().nullable(),
  rotatedAt: z.string().nullable(),
  /** Null: never. */
  expiresAt: z.string().nullable(),
  /** Until then the secret before the last rotation is valid, too. */
  overlapUntil: z.string().nullable(),
  /** Up to a minute old. */
  lastUsedAt: z.string().nullable(),
  revokedAt: z.string().nullable(),
  revokedBy: z.string().nullable(),
});
export type Token = z.output<typeof tokenSchema>;

/** The only answers with a secret. */
export const tokenWithSecretSchema = tokenSchema.extend({ secret: z.string() });
export type TokenWithSecret = z.output<typeof tokenWithSecretSchema>;
