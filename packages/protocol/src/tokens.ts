/** Tokens: who may call a server, and what for. */
import { z } from 'zod';
import { durationSchema } from './duration.js';
import { nameSchema } from './fields.js';

/** A token has one role; `admin` may do everything. */
export const ROLES = ['viewer', 'operator', 'admin', 'client', 'worker'] as const;
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

export const newTokenSchema = z.strictObject({
  name: nameSchema,
  role: z.enum(ROLES),
  expires: lifetimeSchema.prefault(DEFAULT_LIFETIME),
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
