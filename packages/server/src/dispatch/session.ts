/**
 * A worker's session as the server that serves it keeps it in memory: one object a connection. Everything
 * here can be rebuilt from the worker's `hello` and the database.
 */
import type { Grant } from '@drover/protocol';

export type Session = {
  readonly id: string;
  readonly name: string;
  readonly types: readonly string[];
  /** Null: every queue. */
  readonly queues: readonly string[] | null;
  readonly slots: number;
  /** Workers that take the same types from the same queues have the same key. */
  readonly groupKey: string;
  /** Every grant the worker has been sent and no outcome of has been acknowledged: id → fence. */
  readonly grants: Map<string, number>;
  /** Ids that are being inserted for this session at this moment. */
  readonly arriving: Set<string>;
  /** Assignments the worker takes on this connection in all, and how many it was sent. */
  window: number;
  sent: number;
  /** Places promised to a claim or an insert that is under way. */
  reserved: number;
  draining: boolean;
  /** The connection is gone; nothing may be sent. */
  closed: boolean;
  lastHeardAt: number;
  send(frame: string): void;
  /** Closes the connection; the worker will come back. */
  disconnect(reason: string): void;
};

export function freeSlots(session: Session): number {
  if (session.closed || session.draining) return 0;
  return Math.max(0, session.window - session.sent - session.reserved);
}

export function suits(session: Session, queue: string, type: string): boolean {
  return session.types.includes(type) && (session.queues === null || session.queues.includes(queue));
}

export function groupKeyOf(types: readonly string[], queues: readonly string[] | null): string {
  return JSON.stringify([[...types].sort(), queues === null ? null : [...queues].sort()]);
}

export type GrantedJob = Grant & { assignment: string };
