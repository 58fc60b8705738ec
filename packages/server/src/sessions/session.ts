/**
 * A worker's session in the memory of its server: one object per connection. All of it can be rebuilt from the
 * worker's `hello` and the database.
 */
import { type Grant, type Hello, LIMITS } from '@drover/protocol';
import type { Principal } from '../access/principal.js';
import type { Channel } from './channel.js';
import type { SessionProof } from './session-proof.js';

/** A grant as the session that holds it has it. */
export type HeldGrant = {
  readonly fence: number;
  /**
   * Its outcome is being written. The worker repeats it while the database is slow, and the repetitions must not be
   * queued.
   */
  isSettling: boolean;
};

export type Session = {
  readonly id: string;
  /** Grows with each connection of this worker. */
  readonly connection: number;
  readonly name: string;
  readonly types: readonly string[];
  /** Null: every queue. */
  readonly queues: readonly string[] | null;
  /** The types that it defines with `onLost: hold`. */
  readonly holdTypes: readonly string[];
  readonly slots: number;
  readonly ignoresPause: boolean;
  /** Workers that take the same types from the same queues, and hold the same of them, have the same key. */
  readonly groupKey: string;
  /** By job id: every grant that was sent to the worker and whose outcome is not acknowledged. */
  readonly grants: Map<string, HeldGrant>;
  /** How many of them have an outcome that is being written. */
  settlingGrants: number;
  /** Writes of outcomes in progress. Each returns whether it succeeded. */
  readonly settling: Set<Promise<boolean>>;
  /** Ids that are currently being inserted for this session. */
  readonly arriving: Set<string>;
  /** The total assignments that the worker accepts on this connection, and how many were sent. */
  window: number;
  sent: number;
  /** Slots reserved for a claim or an insert in progress. */
  reserved: number;
  draining: boolean;
  /** Paused by a user; see ignoresPause. */
  paused: boolean;
  /** It has missed beats or does not handle what it is sent, so it gets no new work until that is over. */
  suspected: boolean;
  /** The last beat that arrived, the last that was answered after a renewal, and when the last one arrived. */
  beat: number;
  confirmedBeat: number;
  lastBeatAt: number;
  /** Assignments that the worker has received by its own count, and since when that lags behind `sent`. */
  received: number;
  laggingSince: number | undefined;
  /** What it does not take in, at its lowest, and since when. */
  backlog: { bytes: number; since: number } | undefined;
  /** A problem that the worker itself reports. */
  trouble: string | undefined;
  /** The worker cannot be reached over this channel any more; nothing may be sent. */
  closed: boolean;
  readonly channel: Channel;
  /** By whom it was opened; its children must be in the same scope. */
  readonly principal: Principal;
  /** What the next connection of this worker must show. */
  readonly proof: SessionProof;
};

/** `held`: the grants that it has according to the database. */
type Opened = { held: readonly Grant[]; paused: boolean; channel: Channel; proof: SessionProof; principal: Principal };

export function createSession(hello: Hello, { held, paused, channel, proof, principal }: Opened): Session {
  const { sessionId: id, connection, name, types, queues = null, slots, window, ignorePause = false } = hello;
  const { definitions = [] } = hello;
  const holdTypes = definitions.filter(({ defaults }) => defaults.onLost === 'hold').map(({ type }) => type);
  return {
    ...{ id, connection, name, types, queues, holdTypes, slots, ignoresPause: ignorePause },
    groupKey: groupKeyOf({ types, queues, holdTypes, ignoresPause: ignorePause }),
    grants: new Map(held.map((grant) => [grant.id, { fence: grant.fence, isSettling: false }])),
    ...{ settlingGrants: 0, settling: new Set(), arriving: new Set(), backlog: undefined },
    ...{ window, sent: 0, reserved: 0, draining: false, paused, suspected: false },
    ...{ beat: 0, confirmedBeat: 0, lastBeatAt: performance.now() },
    ...{ received: 0, laggingSince: undefined, trouble: undefined, closed: false, channel, proof, principal },
  };
}

export function holds({ grants }: Session, { id, fence }: Grant): boolean {
  return grants.get(id)?.fence === fence;
}

/** A worker gets no more while it has not taken in so much of what it was sent. */
export const FULL_BACKLOG_BYTES = 8 * 1024 * 1024;

/**
 * How many assignments it may get now. At most as many as it offers; and whatever it offers, no more than its slots and the
 * largest prefetch without an outcome, because all of them may wait in the memory of this server.
 */
export function freeSlots(session: Session): number {
  if (session.closed || session.draining || session.suspected) return 0;
  if (session.paused && !session.ignoresPause) return 0;
  if (session.channel.backlogBytes > FULL_BACKLOG_BYTES) return 0;
  const unfinished = session.grants.size - session.settlingGrants;
  const most = Math.min(session.window - session.sent, session.slots + LIMITS.prefetch - unfinished);
  return Math.max(0, most - session.reserved);
}

export function suits(session: Session, queue: string, type: string): boolean {
  return session.types.includes(type) && (session.queues === null || session.queues.includes(queue));
}

type Group = Pick<Session, 'types' | 'queues' | 'holdTypes' | 'ignoresPause'>;

export function groupKeyOf({ types, queues, holdTypes, ignoresPause }: Group): string {
  const ordered = [types, queues, holdTypes].map((names) => names && [...names].sort());
  return JSON.stringify([...ordered, ignoresPause]);
}
