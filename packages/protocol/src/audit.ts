/** The audit trail: who has changed what. */
import { z } from 'zod';
import { idSchema, nameSchema, textSchema, timeSchema } from './fields.js';
import { LIMITS } from './limits.js';

/** `denied`: a request that the caller may not make. Those of one caller are sampled. */
export const AUDIT_OUTCOMES = ['done', 'denied'] as const;

export const AUDIT_KINDS = ['token', 'configured', 'certificate', 'open', 'database'] as const;

export const listAuditQuery = z.strictObject({
  principal: textSchema(LIMITS.labelLength).optional(),
  token: idSchema.optional(),
  action: nameSchema.optional(),
  target: textSchema(LIMITS.labelLength).optional(),
  outcome: z.enum(AUDIT_OUTCOMES).optional(),
  from: timeSchema.optional(),
  to: timeSchema.optional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.pageSize).default(50),
  cursor: idSchema.optional(),
});
export type ListAuditQuery = z.output<typeof listAuditQuery>;
export type ListAuditInput = z.input<typeof listAuditQuery>;

export const auditEntrySchema = z.object({
  id: z.string(),
  at: z.string(),
  /** The name of the token or certificate. */
  principal: z.string(),
  kind: z.enum(AUDIT_KINDS),
  tokenId: z.string().nullable(),
  address: z.string(),
  /** The header `x-request-id` of the request. */
  requestId: z.string().nullable(),
  /** The name of the route, as in the OpenAPI document. */
  action: z.string(),
  /** The id or name of what was changed. */
  target: z.string().nullable(),
  before: z.unknown().nullable(),
  after: z.unknown().nullable(),
  outcome: z.enum(AUDIT_OUTCOMES),
});
export type AuditEntry = z.output<typeof auditEntrySchema>;
