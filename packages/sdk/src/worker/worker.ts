/**
 * A worker: registers with a server over one connection, offers its slots, runs handlers and reports
 * their outcomes. This file ties the parts together; each part has its own file:
 *
 *   connection ──assign──► slots ──► runner ──outcome──► reporter ──► connection
 *        ▲ beat                                            │ once a turn
 *   heartbeat                            offer-window ◄────┘
 *
 * Jobs belong to the worker's session, not to a connection: losing the connection interrupts nothing.
 * What runs goes on, what finishes is kept, and the next server hears of both in `hello`.
 */
import { EventEmitter } from 'node:events';
import type { DroverError, ErrorCode, Grant, Outcome, WorkerMessage } from '@drover/protocol';
import type { Logger } from '../logger.js';
import type { Attempt } from './attempt.js';
import { Connection } from './connection.js';
import { Heartbeat } from './heartbeat.js';
import { type Load, OfferWindow } from './offer-window.js';
import { type ReadyWorkerOptions, readyWorkerOptions, type WorkerOptions } from './options.js';
import { ProgressSender } from './progress-sender.js';
import { Reporter } from './reporter.js';
import { Runner } from './runner.js';
import { ServerList } from './server-list.js';
import { type CancelReason, Slots } from './slots.js';
import { StallWatch } from './stall-watch.js';
import type { LaterMessage, Welcome } from './stream-socket.js';
import { within } from './within.js';

/** For handlers to settle after their signals were aborted. */
const GRACE_MS = 5000;
/** For the last outcomes to be acknowledged, counted anew as long as some are. */
const DELIVERY_MS = 5000;
/** Given as the first answer of all, these are mistakes of the set-up, and waiting will not mend them. */
const FINAL_REFUSALS: readonly ErrorCode[] = ['unauthenticated', 'forbidden', 'not_acceptable', 'invalid_request'];

export type WorkerState = 'new' | 'connecting' | 'ready' | 'draining' | 'stopped';

export type WorkerEvents = {
  state: [state: WorkerState];
  /** Registered with a server; again after each reconnect. */
  ready: [url: string];
  /** A server answered, but not with a welcome. */
  refused: [error: DroverError];
};

export function createWorker(options: WorkerOptions): Worker {
  return new Worker(readyWorkerOptions(options));
}

export class Worker {
  readonly #options: ReadyWorkerOptions;
  readonly #logger: Logger;
  readonly #emitter = new EventEmitter();
  readonly #servers: ServerList;
  readonly #connection: Connection;
  readonly #heartbeat: Heartbeat;
  readonly #slots: Slots;
  readonly #reporter: Reporter;
  readonly #progress: ProgressSender;
  readonly #window = new OfferWindow();
  readonly #stallWatch: StallWatch;
  #state: WorkerState = 'new';
  #hasServerAnswered = false;
  #starting: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  #stopping: Promise<void> | undefined;

  /** Use `createWorker`. */
  constructor(options: ReadyWorkerOptions) {
    this.#options = options;
    this.#logger = options.logger;
    this.#servers = new ServerList(options.urls);
    this.#connection = new Connection(
      this.#servers,
      options.token,
      {
        hello: () => ({ ...options.identity, window: this.#window.open(this.#load()), holds: this.#holds() }),
        welcome: (message, url) => this.#welcomed(message, url),
        message: (message) => this.#received(message),
        lost: () => this.#lost(),
        refused: (error, url) => this.#refused(error, url),
      },
      options.logger,
    );
    this.#heartbeat = new Heartbeat({
      beat: (beat) => {
        this.#send({ kind: 'beat', beat, running: this.#slots.running });
        this.#reporter.resendOverdue();
      },
      silent: () => this.#connection.terminate(),
    });
    this.#reporter = new Reporter(this.#connection, () => this.#offer());
    this.#progress = new ProgressSender(this.#connection);
    const services = {
      logger: options.logger,
      reportProgress: (attempt: Attempt, value: string) => this.#progress.report(attempt, value),
    };
    const runner = new Runner({ handlers: options.handlers, services, logger: options.logger });
    this.#slots = new Slots({
      slots: options.slots,
      run: (attempt) => runner.run(attempt),
      settled: (outcome) => this.#settled(outcome),
    });
    this.#stallWatch = new StallWatch(this.#slots, () => {
      options.prefetch.stalled();
      this.#handBack();
    });
  }

  get state(): WorkerState {
    return this.#state;
  }

  /** Handlers that run now. */
  get running(): number {
    return this.#slots.running;
  }

  get sessionId(): string {
    return this.#options.identity.sessionId;
  }

  get name(): string {
    return this.#options.identity.name;
  }

  on<Event extends keyof WorkerEvents>(event: Event, listener: (...values: WorkerEvents[Event]) => void): this {
    this.#emitter.on(event, listener);
    return this;
  }

  off<Event extends keyof WorkerEvents>(event: Event, listener: (...values: WorkerEvents[Event]) => void): this {
    this.#emitter.off(event, listener);
    return this;
  }

  /**
   * Resolves when the worker is registered for the first time, however long its servers take to come. It
   * rejects, and the worker is stopped, if the first server to answer does not accept it, or on `signal`.
   */
  async start({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#state !== 'new') throw new Error(`this worker is ${this.#state}; a worker starts once`);
    signal?.throwIfAborted();
    const registered = new Promise<void>((resolve, reject) => {
      this.#starting = { resolve, reject };
    });
    const abandon = () => this.#starting?.reject(signal?.reason);
    signal?.addEventListener('abort', abandon);
    this.#setState('connecting');
    this.#connection.start();
    try {
      await registered;
    } catch (error) {
      await this.stop();
      throw error;
    } finally {
      this.#starting = undefined;
      signal?.removeEventListener('abort', abandon);
    }
  }

  /**
   * Takes no more jobs, hands back those that wait, lets the running ones finish (after `drainTimeout` they
   * are told to stop), delivers the outcomes and leaves. Answers whether every handler has ended.
   */
  async stop(): Promise<boolean> {
    this.#stopping ??= this.#stop();
    await this.#stopping;
    return this.#slots.running === 0;
  }

  async #stop(): Promise<void> {
    this.#setState('draining');
    this.#starting?.reject(new Error('the worker was stopped before it was registered'));
    this.#handBack();
    this.#send({ kind: 'drain' });
    if (!(await within(this.#slots.whenIdle(), this.#options.drainTimeoutMs))) {
      this.#slots.interruptAll();
      await within(this.#slots.whenIdle(), GRACE_MS);
    }
    await this.#delivery();
    const { running } = this.#slots;
    const { size } = this.#reporter;
    // A worker that still has something is not gone: without a bye, its lease ends and its jobs are recovered.
    if (running === 0 && size === 0) await this.#connection.sayGoodbye(JSON.stringify({ kind: 'bye' }));
    else this.#logger.error({ running, unacknowledged: size }, 'the worker leaves with jobs that will be recovered');
    this.#stallWatch.stop();
    this.#progress.stop();
    await this.#connection.stop();
    this.#setState('stopped');
  }

  /** Waits for acknowledgements; gives up when none has come for a while. */
  async #delivery(): Promise<void> {
    let before = Number.POSITIVE_INFINITY;
    while (this.#reporter.size < before) {
      before = this.#reporter.size;
      if (await within(this.#reporter.whenDelivered(), DELIVERY_MS)) return;
    }
  }

  #welcomed(message: Welcome, url: string): void {
    this.#hasServerAnswered = true;
    this.#servers.learn(message.servers);
    for (const grant of message.dropped) this.#cancel(grant, 'lost');
    this.#heartbeat.start(message.beatMs);
    this.#reporter.resendAll();
    if (this.#state === 'draining') this.#send({ kind: 'drain' });
    else this.#setState('ready');
    this.#logger.info({ url, serverId: message.serverId, sessionId: this.sessionId }, 'registered');
    this.#emit('ready', url);
    this.#starting?.resolve();
  }

  #received(message: LaterMessage): void {
    this.#heartbeat.heard();
    switch (message.kind) {
      case 'assign':
        this.#window.received(message.jobs.length);
        this.#slots.accept(message.jobs.filter((job) => !this.#reporter.has(job)));
        if (this.#state === 'draining') this.#handBack();
        else if (this.#options.prefetch.isAdaptive) this.#stallWatch.watch();
        return;
      case 'ack':
        for (const grant of message.items) this.#reporter.forget(grant);
        for (const grant of message.stale) this.#reporter.forget(grant);
        this.#offer();
        return;
      case 'cancel':
        for (const item of message.items) this.#cancel(item, item.reason);
        return;
      case 'beat':
        this.#servers.learn(message.servers);
        return;
      case 'moveOn':
        this.#reporter.flush();
        this.#connection.moveOn();
        return;
    }
  }

  #lost(): void {
    this.#heartbeat.stop();
    if (this.#state === 'ready') this.#setState('connecting');
  }

  #refused(error: DroverError, url: string): void {
    const fields = { url, code: error.code, reason: error.message };
    if (error.retryable) this.#logger.info(fields, 'the server cannot take this worker now');
    else this.#logger.error(fields, 'the server does not accept this worker');
    this.#emit('refused', error);
    if (!this.#hasServerAnswered && FINAL_REFUSALS.includes(error.code)) this.#starting?.reject(error);
    this.#hasServerAnswered = true;
  }

  #cancel(grant: Grant, reason: CancelReason): void {
    if (reason === 'lost') this.#reporter.forget(grant);
    const outcome = this.#slots.cancel(grant, reason);
    if (outcome !== undefined) this.#reporter.report(outcome);
  }

  #handBack(): void {
    for (const outcome of this.#slots.handBack()) this.#reporter.report(outcome);
  }

  #settled(outcome: Outcome | undefined): void {
    if (outcome === undefined) {
      this.#reporter.flushSoon();
      return;
    }
    if ('runMs' in outcome) this.#options.prefetch.observe(outcome.runMs);
    this.#reporter.report(outcome);
  }

  /** After each turn in which room may have appeared. */
  #offer(): void {
    if (this.#state !== 'ready') return;
    const window = this.#window.raise(this.#load());
    if (window !== undefined) this.#send({ kind: 'offer', window });
  }

  #load(): Load {
    const { slots, prefetch } = this.#options;
    const { held } = this.#slots;
    const unacknowledged = this.#reporter.size;
    if (this.#state === 'draining') return { slots: 0, prefetch: 0, held, unacknowledged };
    return { slots, prefetch: prefetch.size, held, unacknowledged };
  }

  #holds(): Grant[] {
    return [...this.#slots.grants(), ...this.#reporter.grants()];
  }

  #send(message: WorkerMessage): void {
    this.#connection.send(JSON.stringify(message));
  }

  #setState(state: WorkerState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#emit('state', state);
  }

  #emit<Event extends keyof WorkerEvents>(event: Event, ...values: WorkerEvents[Event]): void {
    this.#emitter.emit(event, ...values);
  }
}
