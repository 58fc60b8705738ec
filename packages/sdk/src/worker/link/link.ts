/**
 * The main thread's side of the link: starts the link thread, gives it frames to send and dispatches its events. A
 * link thread that dies is replaced; the new one continues with the old one's lease clock. One that dies before a
 * server has accepted the worker would only die again, so the start fails.
 */
import { Worker as Thread } from 'node:worker_threads';
import { DroverError, type Grant, isErrorCode, type ServerMessage } from '@drover/protocol';
import { isSwitchedOff } from '@drover/protocol/test-points';
import { within } from '@drover/protocol/within';
import type { Logger } from '../../logger.js';
import { type LeasePhase, monotonicMs } from './lease-clock.js';
import type { FromLinkThread, LinkEvent, LinkSettings, ToLinkThread } from './messages.js';
import { MAX_UNDER_WAY } from './outbound.js';
import { parseFrame } from './parse-frame.js';
import { SharedState } from './shared-state.js';
import type { Welcome } from './stream-socket.js';
import { THREAD_CODE } from './thread-code.js';

/** Limit for the link thread to close its socket and end. */
const END_MS = 5000;
/** A link thread that lived shorter than this is not replaced at once. */
const GOOD_AFTER_MS = 5000;
const RESTART_PAUSE_MS = 1000;

/** The messages about jobs. */
export type JobMessage = Extract<ServerMessage, { kind: 'assign' | 'ack' | 'cancel' | 'handBack' }>;

export type LinkEvents = {
  /** The window for the next hello. */
  window: () => number;
  holds: () => Grant[];
  /** `window` is the value in the hello. */
  welcome: (welcome: Welcome, url: string, window: number) => void;
  message: (message: JobMessage) => void;
  lost: () => void;
  refused: (error: DroverError, url: string) => void;
  /** The link thread ended before the first welcome, and is not replaced. */
  failed: (error: Error) => void;
  /** A beat was sent. */
  beat: () => void;
  lease: (phase: LeasePhase) => void;
  /** Frames that were held back may be sent now. */
  drained: () => void;
};

/** Known before the start. */
export type LinkOptions = Pick<LinkSettings, 'urls' | 'access'>;
/** Known at the start. */
export type LinkStart = Pick<
  LinkSettings,
  'identity' | 'clusterId' | 'exitsOnLeaseLost' | 'previousSessions' | 'isolatedProcesses'
>;

export class Link {
  readonly #options: LinkOptions;
  readonly #events: LinkEvents;
  readonly #logger: Logger;
  readonly #shared = new SharedState();
  /** Offset from `performance.now()` to the clock that both threads share. */
  readonly #clockOffsetMs = monotonicMs() - performance.now();
  #thread: Thread | undefined;
  #threadStartedAt = 0;
  #ended: Promise<void> = Promise.resolve();
  #restart: NodeJS.Timeout | undefined;
  #isStopping = false;
  /** Number of the open connection, or 0. */
  #connection = 0;
  #received = 0;
  #hasBeenWelcomed = false;
  #clusterId: string | undefined;
  #trouble: string | undefined;
  #frames: string[] = [];
  /** Characters given to the link thread, modulo 2^32. */
  #posted = 0;

  constructor(options: LinkOptions, events: LinkEvents, logger: Logger) {
    this.#options = options;
    this.#events = events;
    this.#logger = logger;
  }

  /** True between a welcome and the loss of its connection. */
  get isReady(): boolean {
    return this.#connection !== 0;
  }

  /** Whether too much is in flight. If so, `drained` follows. */
  get isCongested(): boolean {
    if (this.#underWay() < MAX_UNDER_WAY) return false;
    this.#shared.wantsDrained = true;
    // Checked again: frames that left before the request was seen are not reported.
    return this.#underWay() >= MAX_UNDER_WAY;
  }

  start(start: LinkStart): void {
    const settings: LinkSettings = {
      ...this.#options,
      ...start,
      clusterId: this.#clusterId ?? start.clusterId,
      previousSessions: this.#hasBeenWelcomed ? [] : start.previousSessions,
      holds: JSON.stringify(this.#events.holds()),
      trouble: this.#trouble,
      stopsItself: !isSwitchedOff('self-stop'),
      shared: this.#shared.buffer,
    };
    const thread = new Thread(THREAD_CODE, {
      eval: true,
      name: 'drover-link',
      workerData: settings,
      // Not the process's options: its loaders and hooks are for the application, not for this thread.
      execArgv: [],
    });
    this.#thread = thread;
    this.#threadStartedAt = performance.now();
    let failure: unknown;
    thread.on('message', (items: FromLinkThread) => this.#take(items));
    thread.on('error', (error) => {
      failure = error;
    });
    this.#ended = new Promise((resolve) => {
      thread.on('exit', (code) => {
        resolve();
        if (this.#isOver(failure, code)) return;
        this.#restart = setTimeout(() => this.start(start), this.#restartPauseMs());
      });
    });
  }

  /** Sends one frame. It is dropped silently if the connection is lost. Frames of one turn are one message. */
  send(frame: string): void {
    if (this.#connection === 0) return;
    this.#posted = (this.#posted + frame.length) | 0;
    if (this.#frames.push(frame) === 1) queueMicrotask(() => this.#postFrames());
  }

  /** Whether the lease allows a job to start at this time of `performance.now()`. */
  mayStart(now: number): boolean {
    return now + this.#clockOffsetMs < this.#shared.startUntilMs;
  }

  /** `exposed` counts the handlers that must stop before the lease is over. */
  setRunning(running: number, exposed: number): void {
    this.#shared.setRunning(running, exposed);
  }

  /** Shown to the operator with each beat. */
  setTrouble(trouble: string | undefined): void {
    this.#trouble = trouble;
    this.#post({ kind: 'trouble', text: trouble });
  }

  /** Sends the last frame and waits a short time until the server has handled it and closed. */
  async sayGoodbye(frame: string): Promise<void> {
    await this.#end(this.#connection === 0 ? { kind: 'stop' } : { kind: 'goodbye', frame });
  }

  /** Closes permanently. Resolves when the thread is gone. */
  async stop(): Promise<void> {
    await this.#end({ kind: 'stop' });
  }

  async #end(order: ToLinkThread): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#restart);
    this.#postFrames();
    this.#post(order);
    if (!(await within(END_MS, this.#ended))) await this.#thread?.terminate();
  }

  #take(items: FromLinkThread): void {
    for (const item of items) {
      if (typeof item === 'string') this.#frame(item);
      else this.#event(item);
    }
  }

  #frame(text: string): void {
    const message = parseFrame(text);
    switch (message?.kind) {
      case 'assign':
        this.#received += message.jobs.length;
        this.#shared.setReceived(this.#connection, this.#received);
        this.#events.message(message);
        return;
      case 'ack':
      case 'cancel':
      case 'handBack':
        this.#events.message(message);
        return;
      case undefined:
        this.#post({ kind: 'fail', connection: this.#connection, reason: 'the server sent a frame that is not JSON' });
        return;
      default:
        // A kind that only newer servers know. They must not rely on it.
        this.#logger.debug({ event: 'frame.ignored', kind: message?.kind }, 'frame of an unknown kind was ignored');
    }
  }

  #event(event: LinkEvent): void {
    switch (event.kind) {
      case 'helloWanted': {
        const { connection } = event;
        const { window, holds } = this.#events;
        this.#post({ kind: 'hello', connection, window: window(), holds: JSON.stringify(holds()) });
        return;
      }
      case 'holdsWanted':
        this.#post({ kind: 'holds', holds: JSON.stringify(this.#events.holds()), frames: event.frames });
        return;
      case 'welcomed':
        this.#connection = event.connection;
        this.#hasBeenWelcomed = true;
        this.#clusterId = event.welcome.clusterId;
        this.#received = 0;
        this.#shared.setReceived(event.connection, 0);
        this.#events.welcome(event.welcome, event.url, event.window);
        return;
      case 'lost':
        this.#disconnected();
        return;
      case 'refused': {
        const code = isErrorCode(event.code) ? event.code : 'internal';
        this.#events.refused(new DroverError(code, event.message), event.url);
        return;
      }
      case 'beat':
        this.#shared.turn = event.beat;
        this.#events.beat();
        return;
      case 'lease':
        this.#events.lease(event.phase);
        return;
      case 'drained':
        this.#events.drained();
        return;
      case 'log':
        this.#logger[event.level](event.fields, event.message);
    }
  }

  #disconnected(): void {
    if (this.#connection === 0) return;
    // Waiting frames belong to the lost connection; they are posted so that they are dropped.
    this.#postFrames();
    this.#connection = 0;
    this.#events.lost();
  }

  /** Handles the end of a thread. Returns whether there will be no other one. */
  #isOver(failure: unknown, code: number): boolean {
    this.#thread = undefined;
    this.#frames = [];
    this.#disconnected();
    if (this.#isStopping) return true;
    if (!this.#hasBeenWelcomed) {
      const reason = failure instanceof Error ? failure.message : `it ended with code ${code}`;
      this.#events.failed(new Error(`the worker's link thread cannot run: ${reason}`, { cause: failure }));
      return true;
    }
    this.#logger.error({ event: 'thread.restarted', error: failure, code }, 'link thread ended; starting a new one');
    this.#posted = this.#shared.written;
    this.#shared.turn = 0;
    return false;
  }

  #restartPauseMs(): number {
    return performance.now() - this.#threadStartedAt < GOOD_AFTER_MS ? RESTART_PAUSE_MS : 0;
  }

  #underWay(): number {
    return (this.#posted - this.#shared.written) | 0;
  }

  #postFrames(): void {
    if (this.#frames.length === 0) return;
    const frames = this.#frames;
    this.#frames = [];
    this.#post({ kind: 'frames', connection: this.#connection, frames });
  }

  #post(message: ToLinkThread): void {
    this.#thread?.postMessage(message);
  }
}
