/**
 * How a session talks to its worker. Each transport (the WebSocket stream, later HTTP) implements it, and nothing in
 * `sessions/` and `dispatch/` depends on the transport.
 *
 * Every message may be lost; none of them is an acknowledgement. The worker learns the result of its outcomes from
 * `WorkerSessions.settle`, which the adapter passes on.
 */
import type { Grant, ServerMessage } from '@drover/protocol';

type Message<Kind extends ServerMessage['kind']> = Extract<ServerMessage, { kind: Kind }>;

/** What a registered worker needs to know. */
export type Welcome = Omit<Message<'welcome'>, 'kind' | 'version'>;

/** A grant that the worker must stop, and why. */
export type StopRequest = Message<'cancel'>['items'][number];

/** A granted job. The assignment is JSON text, so that no payload is parsed on its way. */
export type GrantedJob = Grant & { assignment: string };

export type Channel = {
  /** False once the worker cannot be reached over it. */
  readonly isOpen: boolean;
  /** Bytes that were sent and that the worker has not taken in yet. */
  readonly backlogBytes: number;
  welcome(welcome: Welcome): void;
  /** The grants must be committed. */
  assign(jobs: readonly GrantedJob[]): void;
  cancel(items: readonly StopRequest[]): void;
  /** The worker must hand back what it has not started. */
  handBack(): void;
  /** The worker moves to another server. */
  moveOn(): void;
  /** The lease was renewed after this beat had arrived. */
  confirmBeat(beat: number, servers: readonly string[]): void;
  /** Ends it at once. The worker connects again. */
  disconnect(): void;
};
