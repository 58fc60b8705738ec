/**
 * One connection of one worker, from `hello` to its end: frames of the worker become calls of its session, and the
 * reverse.
 */
import { DroverError, ERRORS, type Hello, type Outcome, STREAM_VERSION, type WorkerMessage } from '@drover/protocol';
import type { Logger } from 'pino';
import type { Principal } from '../../access/principal.js';
import { DatabaseError, isPassing } from '../../db/database-error.js';
import type { Channel } from '../../sessions/channel.js';
import type { Session } from '../../sessions/session.js';
import type { WorkerSessions } from '../../sessions/worker-sessions.js';
import {
  ackText,
  batchAckText,
  frameText,
  HAND_BACK,
  MOVE_ON,
  refusedText,
  sendAssignments,
  welcomeText,
} from './frames.js';
import { readFrame } from './read-frame.js';

export type WorkerConnectionDeps = { sessions: WorkerSessions; logger: Logger };

type Wire = {
  readonly principal: Principal;
  readonly backlogBytes: number;
  send(frame: string): void;
  close(reason: string): void;
  terminate(): void;
};

export type WorkerConnection = {
  /** Whether hello has arrived. */
  readonly isGreeted: boolean;
  /** Resolves when the server needs nothing of the frame any more. Undefined: at once. */
  receive(text: string): Promise<void> | undefined;
  refuse(error: DroverError): void;
  /** Called when the socket is gone. */
  closed(): void;
};

export function createWorkerConnection({ sessions, logger }: WorkerConnectionDeps, wire: Wire): WorkerConnection {
  let session: Session | undefined;
  let isGreeted = false;
  let isOpen = true;
  const channel = createChannel(wire, () => isOpen);

  function refuse(error: DroverError): void {
    if (!isOpen) return;
    logger.warn(
      { event: 'worker.refused', err: error.cause, code: error.code, worker: session?.name },
      `worker was refused: ${error.message}`,
    );
    wire.send(refusedText(error));
    wire.close(error.code);
    // at once, because a peer that does not close must get no more jobs
    leave('it was refused');
  }

  /** The connection no longer serves its session; later frames are ignored. */
  function leave(why: string): void {
    isOpen = false;
    if (session) sessions.leave(session, why);
  }

  async function greet(hello: Hello): Promise<void> {
    if (hello.version !== STREAM_VERSION) {
      throw new DroverError('not_acceptable', `version: this server speaks ${STREAM_VERSION}, got ${hello.version}`);
    }
    session = await sessions.register(hello, { channel, principal: wire.principal });
  }

  function accept(text: string): Promise<void> | undefined {
    const message = readFrame(text);
    if (message.kind !== 'hello') {
      if (!session) throw new DroverError('invalid_request', `kind: expected hello first, got ${message.kind}`);
      return handle({ sessions, wire }, session, message);
    }
    if (isGreeted) throw new DroverError('invalid_request', 'kind: hello was said already');
    isGreeted = true;
    return greet(message).catch((error: Error) => refuse(asDroverError(error)));
  }

  return {
    get isGreeted() {
      return isGreeted;
    },
    refuse,
    receive(text) {
      if (!isOpen) return undefined;
      try {
        return accept(text);
      } catch (error) {
        refuse(asDroverError(error as Error));
        return undefined;
      }
    },
    closed: () => leave('the connection was lost'),
  };
}

type Ways = { sessions: WorkerSessions; wire: Wire };

function handle(ways: Ways, session: Session, message: Exclude<WorkerMessage, Hello>): Promise<void> | undefined {
  const { sessions } = ways;
  switch (message.kind) {
    case 'offer':
      sessions.offer(session, message.window);
      return undefined;
    case 'outcomes':
      return settle(ways, session, message.items, message.batch);
    case 'progress':
      return sessions.reportProgress(session, message.items);
    case 'beat':
      sessions.beat(session, message);
      return undefined;
    case 'drain':
      sessions.drain(session);
      return undefined;
    case 'bye':
      return resign(ways, session);
  }
}

/** A frame with a number is acknowledged as a whole by its number; otherwise each outcome is acknowledged. */
async function settle(
  { sessions, wire }: Ways,
  session: Session,
  items: Outcome[],
  batch: number | undefined,
): Promise<void> {
  const { written, tooLate, stale, isComplete } = await sessions.settle(session, items);
  if (session.closed) return;
  if (batch !== undefined) {
    if (isComplete) wire.send(batchAckText(batch));
    return;
  }
  const late = written.filter(({ id }) => tooLate.has(id));
  const counted = written.filter(({ id }) => !tooLate.has(id));
  if (written.length + stale.length > 0) wire.send(ackText(counted, [...stale, ...late]));
}

async function resign({ sessions, wire }: Ways, session: Session): Promise<void> {
  if (await sessions.resign(session)) wire.close('bye');
}

function createChannel(wire: Wire, isOpen: () => boolean): Channel {
  return {
    get isOpen() {
      return isOpen();
    },
    get backlogBytes() {
      return wire.backlogBytes;
    },
    welcome: (welcome) => wire.send(welcomeText(welcome)),
    assign: (jobs) => sendAssignments(jobs, wire.send),
    cancel: (items) => wire.send(frameText({ kind: 'cancel', items: [...items] })),
    handBack: () => wire.send(HAND_BACK),
    moveOn: () => wire.send(MOVE_ON),
    confirmBeat: (beat, servers) => wire.send(frameText({ kind: 'beat', beat, servers: [...servers] })),
    disconnect: () => wire.terminate(),
  };
}

/** The message of the database stays in the log: it may name hosts, users and values of others. */
function asDroverError(error: Error): DroverError {
  if (error instanceof DroverError) return error;
  if (error instanceof SyntaxError)
    return new DroverError('invalid_json', `the frame is not valid JSON: ${error.message}`);
  if (error instanceof DatabaseError && !isPassing(error)) {
    return new DroverError('invalid_request', 'the database refused the hello', undefined, { cause: error });
  }
  if (error instanceof DatabaseError) {
    return new DroverError('database_unavailable', 'the database did not answer', undefined, { cause: error });
  }
  return new DroverError('internal', ERRORS.internal.meaning, undefined, { cause: error });
}
