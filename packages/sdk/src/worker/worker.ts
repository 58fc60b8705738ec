/**
 * A worker: registers with a server over one connection, offers its slots, runs handlers and reports their outcomes.
 * This file connects the parts:
 *
 *   link ──assign──► slots ──► runner ──outcome──► reporter ──► link
 *    │ lease           ▲                              │ once a turn
 *    └─────────────────┘            offer-window ◄────┘
 *                         journal: what runs and what was reported, for the next process
 *
 * Jobs belong to the worker's session, not to a connection: losing the connection interrupts nothing. Running jobs
 * continue, outcomes are kept, and the next server learns of both in `hello`. Jobs are stopped only when no server
 * has confirmed the lease in time, before another worker may start them. The link decides that in its own thread.
 */
import {
  type Assignment,
  type DroverError,
  type ErrorCode,
  type Grant,
  type Outcome,
  STREAM_PATH,
  type WorkerMessage,
} from '@drover/protocol';
import { within } from '@drover/protocol/within';
import { JOB } from '../job-definition.js';
import type { Logger } from '../logger.js';
import { refuse } from '../options.js';
import type { Attempt } from './attempt.js';
import { type AttemptEvents, infoOf, tellEnd } from './attempt-events.js';
import { Emitter } from './emitter.js';
import { Journal } from './journal/journal.js';
import { runJournaled } from './journal/run-journaled.js';
import type { LeasePhase } from './link/lease-clock.js';
import { type JobMessage, Link } from './link/link.js';
import type { Welcome } from './link/stream-socket.js';
import { type Load, OfferWindow } from './offer-window.js';
import { type ReadyWorkerOptions, readyWorkerOptions, type WorkerOptions } from './options.js';
import { ProgressSender } from './progress-sender.js';
import { Reporter } from './reporter.js';
import { Runner } from './runner.js';
import { type CancelReason, Slots } from './slots.js';
import { StallWatch } from './stall-watch.js';
import { strictOptions } from './strict-options.js';
import { Troubles } from './troubles.js';

/** Limit for handlers to settle after their signals were aborted. */
const GRACE_MS = 5000;
/** Limit for the last outcomes to be acknowledged; it restarts whenever some are. */
const DELIVERY_MS = 5000;
/** A handler that has not settled this long after it was told to stop is shown to the operator. */
const OVERDUE_MS = 5000;
/** As the first answer, these are configuration mistakes that a retry does not fix. */
const FINAL_REFUSALS: readonly ErrorCode[] = [
  'unauthenticated',
  'forbidden',
  'not_acceptable',
  'invalid_request',
  'wrong_cluster',
];

export type WorkerState = 'new' | 'connecting' | 'ready' | 'draining' | 'stopped';

export type WorkerEvents = AttemptEvents & {
  state: [state: WorkerState];
  /** Registered with a server; emitted again after each reconnect. */
  ready: [url: string];
  /** A server answered, but not with a welcome. */
  refused: [error: DroverError];
};

const EVENTS: readonly (keyof WorkerEvents)[] = [
  ...(['started', 'succeeded', 'failed', 'snoozed', 'cancelled', 'released', 'lost'] as const),
  ...(['state', 'ready', 'refused'] as const),
];

export type StartOptions = { signal?: AbortSignal | undefined; ownsProcess?: boolean | undefined };

export function createWorker(options: WorkerOptions): Worker {
  return new Worker(readyWorkerOptions(options));
}

export class Worker {
  readonly #options: ReadyWorkerOptions;
  readonly #logger: Logger;
  readonly #emitter: Emitter<WorkerEvents>;
  readonly #troubles: Troubles;
  readonly #slots: Slots;
  readonly #reporter: Reporter;
  readonly #progress: ProgressSender;
  readonly #window = new OfferWindow();
  readonly #stallWatch: StallWatch;
  readonly #strict: (assignment: Assignment) => Assignment;
  readonly #runner: Runner;
  readonly #link: Link;
  #journal: Journal | undefined;
  #opening: Promise<void> | undefined;
  #leasePhase: LeasePhase = 'doubtful';
  #state: WorkerState = 'new';
  #hasServerAnswered = false;
  #exitsOnLeaseLost = false;
  #starting: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  #stopping: Promise<void> | undefined;

  /** Use `createWorker`. */
  constructor(options: ReadyWorkerOptions) {
    this.#options = options;
    this.#logger = options.logger;
    this.#emitter = new Emitter(options.logger);
    const { urls, token, tls } = options;
    this.#link = new Link(
      { urls, access: { path: STREAM_PATH, token, tls } },
      {
        window: () => this.#window.open(this.#load()),
        holds: () => [...this.#slots.grants(), ...this.#reporter.grants()],
        welcome: (welcome, url, window) => this.#welcomed(welcome, url, window),
        message: (message) => this.#received(message),
        lost: () => this.#lost(),
        refused: (error, url) => this.#refused(error, url),
        failed: (error) => this.#starting?.reject(error),
        beat: () => this.#beat(),
        lease: (phase) => this.#leased(phase),
        drained: () => this.#reporter.flush(),
      },
      options.logger,
    );
    this.#troubles = new Troubles((text) => this.#link.setTrouble(text));
    this.#reporter = new Reporter(this.#link, () => this.#offer());
    this.#progress = new ProgressSender(this.#link);
    const services = {
      logger: options.handlerLogger,
      reportProgress: (attempt: Attempt, value: string) => this.#progress.report(attempt, value),
    };
    const { jobs, slots, logger } = options;
    this.#strict = strictOptions(jobs);
    const mayStart = (now: number) => !this.#isUnfit() && this.#link.mayStart(now);
    this.#runner = new Runner({ jobs, services, logger, slots, mayStart: () => mayStart(performance.now()) });
    const run = (attempt: Attempt) => {
      attempt.hasRun = true;
      if (this.#emitter.hasListeners('started')) this.#emitter.emit('started', infoOf(attempt));
      return this.#runner.run(attempt);
    };
    const isolatedTypes = new Set(jobs.filter((job) => job[JOB].isolation !== undefined).map(({ type }) => type));
    this.#slots = new Slots({
      slots: options.slots,
      run: (attempt) =>
        this.#journal === undefined ? run(attempt) : runJournaled(this.#journal, attempt, mayStart, run),
      isIsolated: (type) => isolatedTypes.has(type),
      settled: (attempt, outcome) => this.#settled(attempt, outcome),
      mayStart,
      occupied: (running, exposed) => this.#link.setRunning(running, exposed),
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

  /** Calls the listener for each event. Returns the function that removes it. A listener that throws harms nothing. */
  on<Event extends keyof WorkerEvents>(
    event: Event,
    listener: (...values: WorkerEvents[Event]) => unknown,
  ): () => void {
    if (!EVENTS.includes(event)) refuse('worker.on', 'event', event, `one of ${EVENTS.join(', ')}`);
    if (typeof listener !== 'function') refuse('worker.on', 'listener', listener, 'a function');
    return this.#emitter.on(event, listener);
  }

  /**
   * Resolves when the worker is registered for the first time, however long that takes. It rejects, and the worker is
   * stopped, if the first server to answer does not accept it, if its link thread cannot run, or on `signal`. `ownsProcess`: the process belongs to
   * this worker, so `onLeaseLost` defaults to `exit`.
   */
  async start({ signal, ownsProcess = false }: StartOptions = {}): Promise<void> {
    if (this.#state !== 'new')
      throw new Error(`the worker is ${this.#state}; a worker can be started once, so create a new one`);
    signal?.throwIfAborted();
    const registered = new Promise<void>((resolve, reject) => {
      this.#starting = { resolve, reject };
    });
    // Awaited below; it may reject while the journal is still being opened.
    registered.catch(() => {});
    const abandon = () => this.#starting?.reject(signal?.reason);
    signal?.addEventListener('abort', abandon);
    this.#setState('connecting');
    this.#exitsOnLeaseLost = (this.#options.onLeaseLost ?? (ownsProcess ? 'exit' : 'abort')) === 'exit';
    try {
      this.#opening = this.#openJournal();
      await this.#opening;
      const previousSessions = this.#journal?.previousSessions ?? [];
      const clusterId = this.#journal?.clusterId;
      const isolatedProcesses = this.#runner.isolated?.processTable;
      const isJournalIncomplete = this.#journal?.isIncomplete === true ? true : undefined;
      const identity = { ...this.#options.identity, isJournalIncomplete };
      const exitsOnLeaseLost = this.#exitsOnLeaseLost;
      const start = { identity, clusterId, exitsOnLeaseLost, previousSessions, isolatedProcesses };
      if (this.#stopping === undefined) this.#link.start(start);
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
   * Takes no more jobs, hands back waiting ones, lets running ones finish (after `drainTimeout` they are told to
   * stop), delivers the outcomes and leaves. Returns whether every handler has ended.
   */
  async stop(): Promise<boolean> {
    this.#stopping ??= this.#stop();
    await this.#stopping;
    return this.#slots.running === 0;
  }

  async #stop(): Promise<void> {
    this.#setState('draining');
    this.#starting?.reject(new Error('the worker was stopped before a server accepted it'));
    // `start` reports its failure.
    await this.#opening?.catch(() => {});
    this.#handBack();
    this.#send({ kind: 'drain' });
    if (!(await within(this.#options.drainTimeoutMs, this.#slots.whenIdle()))) {
      this.#slots.interruptAll();
      await within(GRACE_MS, this.#slots.whenIdle());
    }
    await this.#delivery();
    const { running } = this.#slots;
    const { size } = this.#reporter;
    // A worker that still has jobs or outcomes does not say goodbye: its lease expires and its jobs are recovered.
    if (running === 0 && size === 0) await this.#link.sayGoodbye(JSON.stringify({ kind: 'bye' }));
    else {
      const fields = { event: 'worker.undrained', running, unacknowledged: size };
      this.#logger.error(fields, 'worker stopped with unfinished jobs; servers will recover them');
    }
    this.#stallWatch.stop();
    this.#progress.stop();
    await this.#link.stop();
    await this.#runner.stop();
    await this.#journal?.close(this.#slots.running === 0);
    this.#setState('stopped');
  }

  async #openJournal(): Promise<void> {
    const { journalDir: folder, discardDamagedJournal: discardDamaged, logger } = this.#options;
    if (folder === undefined) return;
    const troubled = (trouble: string | undefined) => {
      this.#troubles.set('journal', trouble);
      if (trouble !== undefined) this.#handBack();
      else this.#offer();
    };
    const { sessionId: id, resumeKey } = this.#options.identity;
    const session = { id, resumeKey };
    const journal = await Journal.open({ folder, session, discardDamaged, logger, troubled });
    this.#journal = journal;
    this.#reporter.journal = journal;
    for (const undelivered of journal.undelivered()) this.#reporter.restore(undelivered);
  }

  /** Waits for acknowledgements. Stops when none has come for a while. */
  async #delivery(): Promise<void> {
    let before = Number.POSITIVE_INFINITY;
    while (this.#reporter.size < before) {
      before = this.#reporter.size;
      if (await within(DELIVERY_MS, this.#reporter.whenDelivered())) return;
    }
  }

  #welcomed(message: Welcome, url: string, window: number): void {
    this.#hasServerAnswered = true;
    this.#window.begin(window);
    this.#journal?.adopted(message.clusterId);
    for (const grant of message.dropped) this.#cancel(grant, 'lost');
    this.#reporter.resendAll();
    if (this.#state === 'draining') this.#send({ kind: 'drain' });
    else this.#setState('ready');
    const fields = { event: 'connection.established', url, serverId: message.serverId, sessionId: this.sessionId };
    this.#logger.info(fields, 'worker connected to a server');
    this.#emitter.emit('ready', url);
    this.#starting?.resolve();
  }

  #received(message: JobMessage): void {
    switch (message.kind) {
      case 'assign':
        this.#window.received(message.jobs.length);
        this.#slots.accept(message.jobs.filter((job) => !this.#reporter.has(job)).map(this.#strict));
        if (this.#isUnfit() || this.#leasePhase !== 'trusted') this.#handBack();
        else if (this.#options.prefetch.isAdaptive) this.#stallWatch.watch();
        return;
      case 'ack':
        if (message.batch !== undefined) this.#reporter.forgetBatch(message.batch);
        for (const grant of message.items) this.#reporter.forget(grant);
        for (const grant of message.stale) this.#reporter.forget(grant);
        this.#offer();
        return;
      case 'cancel':
        for (const item of message.items) this.#cancel(item, item.reason);
        return;
      case 'handBack':
        this.#handBack();
        return;
    }
  }

  /** Handles the phases of the lease (see `lease-clock.ts`). */
  #leased(phase: LeasePhase): void {
    this.#leasePhase = phase;
    const { running } = this.#slots;
    switch (phase) {
      case 'trusted':
        this.#troubles.set('lease', undefined);
        this.#slots.resume();
        this.#offer();
        return;
      case 'doubtful':
        this.#handBack();
        return;
      case 'stopping': {
        this.#handBack();
        const stopped = this.#slots.interruptRerun();
        const fields = { event: 'lease.unconfirmed', running, stopped };
        this.#logger.warn(fields, 'no server confirms the lease; rerun jobs are told to stop');
        return;
      }
      case 'over': {
        this.#handBack();
        const exposed = this.#slots.interruptRerun();
        const fields = { event: 'lease.expired', running, exposed };
        this.#logger.warn(fields, 'lease expired; other workers may start the rerun jobs');
        if (exposed === 0) return;
        const trouble = `the lease expired but handlers still run (${exposed}); other workers may start their jobs`;
        this.#troubles.set('lease', trouble);
        const message = 'handlers still run after the lease expired; with onLeaseLost "exit" the process ends';
        this.#logger.error({ event: 'lease.overrun', exposed, exits: this.#exitsOnLeaseLost }, message);
      }
    }
  }

  /** With each beat: resends or shows what waits too long. */
  #beat(): void {
    this.#reporter.resendOverdue();
    const [overdue] = this.#slots.overdue(performance.now() - OVERDUE_MS);
    this.#troubles.set('overdue', overdue && `job ${overdue.assignment.id} still runs after it was told to stop`);
  }

  #lost(): void {
    if (this.#state === 'ready') this.#setState('connecting');
  }

  #refused(error: DroverError, url: string): void {
    const fields = { url, code: error.code, reason: error.message };
    if (error.retryable)
      this.#logger.info({ event: 'connection.postponed', ...fields }, 'server is not ready for workers');
    else this.#logger.error({ event: 'connection.refused', ...fields }, 'server refused this worker');
    this.#emitter.emit('refused', error);
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

  #settled(attempt: Attempt, outcome: Outcome | undefined): void {
    if (outcome === undefined) {
      this.#journal?.acknowledged(attempt.assignment);
      this.#reporter.flushSoon();
    } else {
      if ('runMs' in outcome && outcome.runMs !== undefined) this.#options.prefetch.observe(outcome.runMs);
      this.#reporter.report(outcome);
    }
    if (attempt.hasRun) tellEnd({ emitter: this.#emitter, logger: this.#logger }, attempt, outcome);
  }

  /** After each turn in which places may have become free. */
  #offer(): void {
    if (this.#state !== 'ready' || this.#leasePhase !== 'trusted') return;
    const window = this.#window.raise(this.#load());
    if (window !== undefined) this.#send({ kind: 'offer', window });
  }

  #load(): Load {
    const { slots, prefetch } = this.#options;
    const { held } = this.#slots;
    const unacknowledged = this.#reporter.size;
    if (this.#isUnfit()) return { slots: 0, prefetch: 0, held, unacknowledged };
    return { slots, prefetch: prefetch.size, held, unacknowledged };
  }

  /** Whether it must not get jobs: it is stopping, or could not record outcomes. */
  #isUnfit(): boolean {
    return this.#state === 'draining' || this.#journal?.isWritable === false;
  }

  #send(message: WorkerMessage): void {
    this.#link.send(JSON.stringify(message));
  }

  #setState(state: WorkerState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#emitter.emit('state', state);
  }
}
