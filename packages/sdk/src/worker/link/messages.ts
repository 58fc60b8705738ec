/** The messages between the main thread and the link thread. */
import type { Hello, PreviousSession } from '@drover/protocol';
import type { LogFields, Logger } from '../../logger.js';
import type { SharedProcessTable } from '../isolation/process-table.js';
import type { LeasePhase } from './lease-clock.js';
import type { Access, Welcome } from './stream-socket.js';

/** The part of each hello that does not change. */
export type WorkerIdentity = Omit<Hello, 'connection' | 'window' | 'holds' | 'clusterId' | 'previousSessions'>;

/** Given to the link thread at its start. */
export type LinkSettings = {
  urls: readonly string[];
  access: Access;
  identity: WorkerIdentity;
  /** From the journal, or from the last welcome. */
  clusterId: string | undefined;
  /** Named in each hello until a server has transferred their jobs. */
  previousSessions: readonly PreviousSession[];
  /** Here and below: a JSON array of grants. Thousands of objects would be cloned one by one. */
  holds: string;
  exitsOnLeaseLost: boolean;
  /** Processes of isolated handlers. */
  isolatedProcesses: SharedProcessTable | undefined;
  trouble: string | undefined;
  /** False in a test that shows what the lease clock is for. */
  stopsItself: boolean;
  shared: SharedArrayBuffer;
};

export type ToLinkThread =
  /** Dropped if their connection is gone. */
  | { kind: 'frames'; connection: number; frames: readonly string[] }
  | { kind: 'hello'; connection: number; window: number; holds: string }
  /** What the main thread holds after the first `frames` assignments that the link thread keeps. */
  | { kind: 'holds'; holds: string; frames: number }
  | { kind: 'trouble'; text: string | undefined }
  /** The main thread cannot parse a frame. */
  | { kind: 'fail'; connection: number; reason: string }
  /** Connect no more, send the last frame, wait for the server to close, then end. */
  | { kind: 'goodbye'; frame: string }
  | { kind: 'stop' };

export type LinkEvent =
  | { kind: 'helloWanted'; connection: number }
  | { kind: 'holdsWanted'; frames: number }
  /** `window` is the value in the hello: 0 if the link thread sent it without the main thread. */
  | { kind: 'welcomed'; connection: number; url: string; window: number; welcome: Welcome }
  | { kind: 'lost' }
  | { kind: 'refused'; url: string; code: string; message: string }
  | { kind: 'beat'; beat: number }
  | { kind: 'lease'; phase: LeasePhase }
  | { kind: 'drained' }
  | { kind: 'log'; level: keyof Logger; fields: LogFields; message: string };

/** One turn of the link thread: raw frames of the server, and events, in order. */
export type FromLinkThread = readonly (string | LinkEvent)[];
