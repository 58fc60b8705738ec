/** Who calls. Everything that decides or records by caller gets this one type. */
import type { AuditEntry, Role, RouteName } from '@drover/protocol';
import type { Scope } from './scope.js';

/** `database`: without a server. `open`: the server has no credentials and lets everyone do everything. */
export type PrincipalKind = AuditEntry['kind'];

export type Principal = {
  /** Shown in logs, pauses and the audit trail. */
  readonly name: string;
  readonly role: Role;
  readonly kind: PrincipalKind;
  /** The id of a token of the database. */
  readonly tokenId: string | null;
  /** Undefined: all queues and types, so that callers without a scope take one comparison. */
  readonly scope: Scope | undefined;
  /** Whether it may read payloads, results, progress and errors. */
  readonly payloads: boolean;
};

/** Without limits but those of its role. */
export const UNLIMITED = { tokenId: null, scope: undefined, payloads: true } as const;

/** Names of routes, and the stream of workers. */
export type Action = RouteName | 'workerStream';

/** A principal with its request, for the audit trail. */
export type Caller = {
  readonly principal: Principal;
  readonly address: string;
  /** The header `x-request-id`. */
  readonly requestId: string | null;
  readonly action: Action;
};

/** The same for every credential of this principal, so that it survives a rotation. */
export function identityOf({ kind, tokenId, name }: Principal): string {
  return `${kind}:${tokenId ?? name}`;
}
