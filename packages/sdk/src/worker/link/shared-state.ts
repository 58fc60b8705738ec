/**
 * The numbers that the main thread and the link thread share. A message would come too late: a handler may block the
 * main thread just when the link thread needs to know whether one runs.
 *
 * Each number has one writer: the main thread writes what it runs and has received, the link thread what the lease
 * allows. Only `wantsDrained` is written by both.
 */
import type { Reading } from './lease-clock.js';

/** Indexes of the integers. Constants, because they are used for each job. */
const INTEGER = {
  connection: 0,
  received: 1,
  running: 2,
  exposed: 3,
  turn: 4,
  written: 5,
  wantsDrained: 6,
  connections: 7,
} as const;
/** Aligned 64-bit numbers are written atomically on every platform that Node supports. */
const DOUBLE = { startUntilMs: 0, monotonicMs: 1, wallMs: 2, bootMs: 3, leaseMs: 4 } as const;

const INTEGERS = Object.keys(INTEGER).length;
const DOUBLES = Object.keys(DOUBLE).length;
const INTEGERS_AT = DOUBLES * Float64Array.BYTES_PER_ELEMENT;
const SIZE = INTEGERS_AT + INTEGERS * Int32Array.BYTES_PER_ELEMENT;

export class SharedState {
  readonly buffer: SharedArrayBuffer;
  readonly #doubles: Float64Array;
  readonly #integers: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(SIZE)) {
    this.buffer = buffer;
    this.#doubles = new Float64Array(buffer, 0, DOUBLES);
    this.#integers = new Int32Array(buffer, INTEGERS_AT, INTEGERS);
  }

  /** The number of the next connection; it continues after those of an earlier link thread. */
  nextConnection(): number {
    return Atomics.add(this.#integers, INTEGER.connections, 1) + 1;
  }

  /** Assignments that the main thread has received on the given connection. */
  received(connection: number): number {
    return this.#load(INTEGER.connection) === connection ? this.#load(INTEGER.received) : 0;
  }

  setReceived(connection: number, received: number): void {
    // The number first: between the two writes a reader must not see the old count for the new connection.
    if (this.#load(INTEGER.connection) !== connection) this.#store(INTEGER.received, 0);
    this.#store(INTEGER.connection, connection);
    this.#store(INTEGER.received, received);
  }

  get running(): number {
    return this.#load(INTEGER.running);
  }

  /** Running handlers that must stop before the lease is over. */
  get exposed(): number {
    return this.#load(INTEGER.exposed);
  }

  setRunning(running: number, exposed: number): void {
    this.#store(INTEGER.running, running);
    this.#store(INTEGER.exposed, exposed);
  }

  /**
   * The last beat whose event the main thread has handled. It shows the link thread that the main thread is not
   * blocked.
   */
  get turn(): number {
    return this.#load(INTEGER.turn);
  }

  set turn(beat: number) {
    this.#store(INTEGER.turn, beat);
  }

  /** Characters of frames that were sent or dropped, modulo 2^32. */
  get written(): number {
    return this.#load(INTEGER.written);
  }

  addWritten(length: number): void {
    Atomics.add(this.#integers, INTEGER.written, length);
  }

  get wantsDrained(): boolean {
    return this.#load(INTEGER.wantsDrained) === 1;
  }

  set wantsDrained(wanted: boolean) {
    this.#store(INTEGER.wantsDrained, wanted ? 1 : 0);
  }

  /** Time on the monotonic clock until which the lease allows a job to start. */
  get startUntilMs(): number {
    return this.#get(DOUBLE.startUntilMs);
  }

  set startUntilMs(ms: number) {
    this.#set(DOUBLE.startUntilMs, ms);
  }

  /** The lease as last confirmed. A new link thread continues with it when the old one has died. */
  get lease(): { since: Reading; leaseMs: number } | undefined {
    const leaseMs = this.#get(DOUBLE.leaseMs);
    if (leaseMs === 0) return undefined;
    const since = {
      monotonicMs: this.#get(DOUBLE.monotonicMs),
      wallMs: this.#get(DOUBLE.wallMs),
      bootMs: this.#get(DOUBLE.bootMs),
    };
    return { since, leaseMs };
  }

  setLease(since: Reading, leaseMs: number): void {
    this.#set(DOUBLE.monotonicMs, since.monotonicMs);
    this.#set(DOUBLE.wallMs, since.wallMs);
    this.#set(DOUBLE.bootMs, since.bootMs);
    this.#set(DOUBLE.leaseMs, leaseMs);
  }

  #load(at: number): number {
    return Atomics.load(this.#integers, at);
  }

  #store(at: number, value: number): void {
    Atomics.store(this.#integers, at, value);
  }

  #get(at: number): number {
    return this.#doubles[at] as number;
  }

  #set(at: number, value: number): void {
    this.#doubles[at] = value;
  }
}
