/** One connection of one worker: from `hello` to the end, frame by frame. */
import {
  DroverError,
  type Grant,
  type Hello,
  type Outcome,
  STREAM_VERSION,
  type WorkerMessage,
} from '@drover/protocol';
import { failpoint, isSwitchedOff } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { DatabaseError, isPassing } from '../db/database-error.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseJobs } from '../lifecycle/release.js';
import type { Dispatcher } from './dispatcher.js';
import { noteBeat } from './leases.js';
import { limitOutcome } from './limit-outcome.js';
import type { Outcomes } from './outcomes.js';
import type { ProgressWriter } from './progress.js';
import { readFrame } from './read-frame.js';
import { groupKeyOf, type HeldGrant, holds, type Session } from './session.js';
import { endSession, leaveSession, openSession } from './session-store.js';

export type WorkerConnectionDeps = {
  db: Runner;
  logger: Logger;
  serverId: string;
  dispatcher: Dispatcher;
  outcomes: Outcomes;
  progress: ProgressWriter;
  publish: Publish;
  beatMs: number;
  leaseMs: number;
  payloadLimitBytes: number;
  resultLimitBytes: number;
  clusterId(): Promise<string>;
  /** The addresses of all live servers. */
  servers(): string[];
};

type Wire = { send(frame: string): void; close(reason: string): void; terminate(): void };

export type WorkerConnection = {
  /** Whether hello has come. */
  readonly isGreeted: boolean;
  receive(text: string): void;
  refuse(error: DroverError): void;
  /** The socket is gone. */
  closed(): void;
};

export function createWorkerConnection(deps: WorkerConnectionDeps, wire: Wire): WorkerConnection {
  const { db, dispatcher, logger, serverId } = deps;
  let session: Session | undefined;
  /** The writes of outcomes. */
  const underWay = new Set<Promise<boolean>>();
  let opening = false;
  let gone = false;

  function refuse(error: DroverError): void {
    if (gone) return;
    logger.warn({ code: error.code, worker: session?.name }, `a worker was refused: ${error.message}`);
    wire.send(JSON.stringify({ kind: 'refused', code: error.code, message: error.message }));
    wire.close(error.code);
    // at once: a peer that does not go must be given no more jobs meanwhile
    leave('it was refused');
  }

  /** The connection serves its session no longer; whatever still comes over it is not heard. */
  function leave(why: string): void {
    gone = true;
    if (!session || session.closed) return;
    session.closed = true;
    dispatcher.remove(session);
    noteLeft(session, why);
  }

  function noteLeft(left: Session, why: string): void {
    leaveSession(db, serverId, left, why).catch((error: Error) =>
      logger.debug({ err: error }, 'a lost connection could not be noted'),
    );
  }

  async function register(hello: Hello): Promise<void> {
    if (hello.version !== STREAM_VERSION) {
      throw new DroverError('not_acceptable', `version: this server speaks ${STREAM_VERSION}, got ${hello.version}`);
    }
    const clusterId = await deps.clusterId();
    if (hello.clusterId !== undefined && hello.clusterId !== clusterId) throw wrongCluster(hello.clusterId, clusterId);
    replaceOlder(hello);
    const opened = await openSession(db, serverId, hello, deps.leaseMs, deps.publish);
    failpoint('session.opened');
    if (gone) return;
    if (!opened) throw overtaken();
    const { held, paused } = opened;
    // by id and fence: a worker may have a newer grant of a job whose older outcome is not acknowledged yet
    const known = new Set(hello.holds.map(grantKey));
    const own = held.filter((grant) => known.has(grantKey(grant)));
    // granted by a server that could not deliver it any more
    const undelivered = held.filter((grant) => !known.has(grantKey(grant)));
    if (undelivered.length > 0) deps.publish(await releaseJobs(db, undelivered));
    if (gone) return;
    // another one may have said hello while this one was looked at
    replaceOlder(hello);
    const created = createSession(hello, own, paused);
    session = created;
    const dropped = isSwitchedOff('fencing') ? [] : hello.holds.filter((grant) => !holds(created, grant));
    const { serverId: id, beatMs, leaseMs } = deps;
    const welcome = {
      kind: 'welcome',
      version: STREAM_VERSION,
      serverId: id,
      clusterId,
      beatMs,
      leaseMs,
      servers: deps.servers(),
      dropped,
    };
    wire.send(JSON.stringify(welcome));
    logger.info(
      { worker: hello.name, session: hello.sessionId, slots: hello.slots, holds: own.length },
      'worker registered',
    );
    dispatcher.add(created);
    dispatcher.wake();
  }

  /** A session has one connection, the newest: an older one of this server ends, a newer one stays. */
  function replaceOlder({ sessionId, connection }: Hello): void {
    const present = dispatcher.sessions.get(sessionId);
    if (present && present.connection > connection) throw overtaken();
    present?.disconnect('the worker has a newer connection');
  }

  function createSession(hello: Hello, own: Grant[], paused: boolean): Session {
    const queues = hello.queues ?? null;
    const created: Session = {
      id: hello.sessionId,
      connection: hello.connection,
      name: hello.name,
      types: hello.types,
      queues,
      slots: hello.slots,
      ignoresPause: hello.ignorePause ?? false,
      groupKey: groupKeyOf(hello.types, queues, hello.ignorePause ?? false),
      grants: new Map(own.map(({ id, fence }) => [id, { fence, isSettling: false }])),
      arriving: new Set(),
      window: hello.window,
      sent: 0,
      reserved: 0,
      draining: false,
      paused,
      suspected: false,
      beat: 0,
      confirmedBeat: 0,
      lastBeatAt: performance.now(),
      received: 0,
      laggingSince: undefined,
      trouble: undefined,
      closed: false,
      send: (frame) => wire.send(frame),
      disconnect(reason) {
        created.closed = true;
        logger.info({ worker: created.name, session: created.id }, `disconnecting: ${reason}`);
        dispatcher.remove(created);
        wire.terminate();
      },
    };
    return created;
  }

  function handle(current: Session, message: WorkerMessage): void {
    switch (message.kind) {
      case 'hello':
        throw new DroverError('invalid_request', 'kind: hello was said already');
      case 'offer':
        if (message.window <= current.window) return;
        current.window = message.window;
        dispatcher.offered();
        return;
      case 'outcomes':
        settle(current, message.items, message.batch);
        return;
      case 'progress':
        deps.progress
          .report(message.items.filter((item) => holds(current, item)))
          .catch((error: Error) => logger.warn({ err: error }, 'progress could not be written'));
        return;
      case 'beat':
        // answered when the lease is renewed
        noteBeat(current, message.beat, message.received, message.trouble);
        return;
      case 'drain':
        current.draining = true;
        return;
      case 'bye':
        leaveForGood(current).catch((error: Error) => {
          logger.warn({ err: error }, 'a worker could not resign cleanly');
          noteLeft(current, 'it resigned while the database was away');
        });
        return;
    }
  }

  /** Writes the outcomes of a frame and acknowledges them. A frame with a number is acknowledged by it, as a whole. */
  function settle(current: Session, items: Outcome[], batch: number | undefined): void {
    const own: Outcome[] = [];
    const held: HeldGrant[] = [];
    const stale: Grant[] = [];
    let isRepeated = false;
    for (const item of items) {
      const grant = current.grants.get(item.id);
      const isHeld = grant?.fence === item.fence;
      if (!isHeld && !isSwitchedOff('fencing')) stale.push(item);
      else if (isHeld && grant.isSettling) isRepeated = true;
      else {
        own.push(item);
        if (isHeld) held.push(grant);
      }
    }
    // what is sent again while it is being written is acknowledged when that is done
    const writes = isRepeated ? [...underWay] : [];
    if (own.length > 0) writes.push(write(current, own, held, batch === undefined));
    if (batch === undefined) {
      if (stale.length > 0) wire.send(ackText([], stale));
      return;
    }
    void Promise.all(writes).then((written) => {
      if (written.every(Boolean) && !current.closed) wire.send(batchAckText(batch));
    });
  }

  /** Gives whether it was done; never rejects. `acknowledges`: each by its name. */
  function write(current: Session, own: Outcome[], held: HeldGrant[], acknowledges: boolean): Promise<boolean> {
    // only now: two outcomes of one grant in one frame are both written, and the database takes one of them
    for (const grant of held) grant.isSettling = true;
    const writing = deps.outcomes.report(own.map((item) => limitOutcome(item, deps))).then(
      (tooLate) => {
        underWay.delete(writing);
        // a job that it gave back may have been granted to it again meanwhile
        for (const item of own) if (holds(current, item)) current.grants.delete(item.id);
        if (acknowledges && !current.closed) {
          const written = own.filter(({ id }) => !tooLate.has(id));
          const late = own.filter(({ id }) => tooLate.has(id));
          wire.send(ackText(written, late));
        }
        return true;
      },
      (error: Error) => {
        underWay.delete(writing);
        for (const grant of held) grant.isSettling = false;
        logger.warn({ err: error }, 'outcomes were not written; the worker will send them again');
        return false;
      },
    );
    underWay.add(writing);
    return writing;
  }

  async function leaveForGood(current: Session): Promise<void> {
    // first: whoever renews leases must not take it for one that was given up, and a claim that is under way gives back
    // what it was granted for this session
    current.closed = true;
    dispatcher.remove(current);
    const rest = await endSession(db, serverId, current);
    if (rest.length > 0) deps.publish(await releaseJobs(db, rest));
    logger.info({ worker: current.name, session: current.id, handedBack: rest.length }, 'worker resigned');
    wire.close('bye');
  }

  return {
    get isGreeted() {
      return opening;
    },
    refuse,
    receive(text) {
      if (gone) return;
      try {
        const message = readFrame(text);
        if (session) {
          handle(session, message);
        } else if (message.kind === 'hello' && !opening) {
          opening = true;
          register(message).catch((error: Error) => refuse(asDroverError(error)));
        } else {
          throw new DroverError('invalid_request', `kind: expected hello first, got ${message.kind}`);
        }
      } catch (error) {
        refuse(asDroverError(error as Error));
      }
    },
    closed: () => leave('the connection was lost'),
  };
}

/** Its worker has left this connection long ago; should it still be there, it may try again. */
function overtaken(): DroverError {
  return new DroverError('overtaken', 'this hello was overtaken by a newer connection of the same worker');
}

function wrongCluster(theirs: string, ours: string): DroverError {
  return new DroverError(
    'wrong_cluster',
    `this worker or its data folder holds jobs of the cluster ${theirs}, and this is the cluster ${ours}; ` +
      'give it servers of its own cluster, or another data folder',
  );
}

function grantKey({ id, fence }: Grant): string {
  return `${id} ${fence}`;
}

/** Naming a thousand grants would cost both sides as much as their outcomes. */
function batchAckText(batch: number): string {
  return `{"kind":"ack","items":[],"stale":[],"batch":${batch}}`;
}

function ackText(items: Grant[], stale: Grant[]): string {
  return `{"kind":"ack","items":${grantsText(items)},"stale":${grantsText(stale)}}`;
}

function grantsText(grants: Grant[]): string {
  return `[${grants.map(({ id, fence }) => `{"id":"${id}","fence":${fence}}`).join(',')}]`;
}

function asDroverError(error: Error): DroverError {
  if (error instanceof DroverError) return error;
  if (error instanceof SyntaxError) return new DroverError('invalid_json', error.message);
  if (error instanceof DatabaseError && !isPassing(error)) {
    return new DroverError('invalid_request', `the database refused the worker: ${error.message}`);
  }
  return new DroverError('database_unavailable', error.message);
}
