/**
 * Delivers outcomes. Outcomes of one event loop turn are sent as one frame, and each is kept until the server has
 * acknowledged it. Until then it is sent again on every new connection, and after some beats also on the same one,
 * because the server may have lost its database for a while. Frames are numbered, and a server acknowledges a whole
 * frame by its number; an older server acknowledges each outcome.
 *
 * Outcomes are kept by job id, only the newest fence: a newer grant of the same job means that the older outcome was
 * written or would change nothing.
 *
 * With a journal, an outcome is durable before it is sent.
 */
import { type Grant, jsonShape, LIMITS, type Outcome } from '@drover/protocol';
import type { Journal } from './journal/journal.js';
import type { Undelivered } from './journal/journal-state.js';
import type { Link } from './link/link.js';
import { failure } from './outcome.js';

const OUTCOMES_PER_FRAME = 1000;
/** Characters of one frame. It stays below the limits of servers: bytes, values, and children of all outcomes. */
const FRAME_LENGTH = 512 * 1024;
/** One outcome with all its children must fit into a frame by itself. */
const MAX_OUTCOME_LENGTH = Math.floor(LIMITS.frameBytes / 4);

/** Beats without an acknowledgement after which an outcome is sent again on the same connection. */
const RESEND_AFTER_BEATS = 3;

/** Outcomes from the journal are JSON text already. Others are encoded when they are sent. */
type Unacknowledged = Outcome | Undelivered;

/** The outcomes of one frame. */
type Batch = { readonly entries: readonly Unacknowledged[]; readonly sentAtBeat: number };

export class Reporter {
  readonly #link: Link;
  readonly #flushed: () => void;
  readonly #unacknowledged = new Map<string, Unacknowledged>();
  /** Reported in this turn. */
  #fresh: Unacknowledged[] = [];
  /** Reported in earlier turns and not yet durable in the journal: they must not be sent. */
  readonly #inJournal = new Set<readonly Unacknowledged[]>();
  #unsent: Unacknowledged[] = [];
  /**
   * Frames of this connection that were not acknowledged by number. Older servers do not use numbers; the beats then
   * resend.
   */
  readonly #batches = new Map<number, Batch>();
  #lastBatch = 0;
  #beat = 0;
  #isFlushDue = false;
  #deliveredListeners: (() => void)[] = [];
  /** Set before the first outcome, if the worker has one. */
  journal: Journal | undefined;

  /** `flushed` is called once for each turn in which something was reported. */
  constructor(link: Link, flushed: () => void) {
    this.#link = link;
    this.#flushed = flushed;
  }

  /** Outcomes that the server has not acknowledged yet. */
  get size(): number {
    return this.#unacknowledged.size;
  }

  has(grant: Grant): boolean {
    return this.#unacknowledged.get(grant.id)?.fence === grant.fence;
  }

  grants(): Grant[] {
    return Array.from(this.#unacknowledged.values(), ({ id, fence }) => ({ id, fence }));
  }

  report(outcome: Outcome): void {
    const entry = this.journal === undefined ? outcome : writtenDown(outcome, this.journal);
    this.#unacknowledged.set(entry.id, entry);
    this.#fresh.push(entry);
    this.flushSoon();
  }

  /** Adds an outcome from the journal. It is sent after the next welcome. */
  restore(undelivered: Undelivered): void {
    this.#unacknowledged.set(undelivered.id, undelivered);
  }

  flushSoon(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    setImmediate(() => {
      this.#isFlushDue = false;
      const fresh = this.#fresh;
      this.#fresh = [];
      if (this.journal === undefined || fresh.length === 0) this.#release(fresh);
      else void this.#releaseDurable(fresh, this.journal);
    });
  }

  async #releaseDurable(fresh: Unacknowledged[], journal: Journal): Promise<void> {
    this.#inJournal.add(fresh);
    await journal.commit();
    this.#inJournal.delete(fresh);
    this.#release(fresh);
  }

  #release(fresh: Unacknowledged[]): void {
    if (this.#unsent.length === 0) this.#unsent = fresh;
    else for (const entry of fresh) this.#unsent.push(entry);
    this.flush();
    this.#flushed();
  }

  /** Sends as much as the link accepts; the rest follows when it has drained. */
  flush(): void {
    if (!this.#link.isReady) {
      // Everything unacknowledged is sent again after the next welcome.
      this.#unsent = [];
      return;
    }
    let next = 0;
    while (next < this.#unsent.length && !this.#link.isCongested) {
      const { texts, end } = takeFrame(this.#unsent, next);
      const number = ++this.#lastBatch;
      this.#batches.set(number, { entries: this.#unsent.slice(next, end), sentAtBeat: this.#beat });
      this.#link.send(`{"kind":"outcomes","items":[${texts}],"batch":${number}}`);
      next = end;
    }
    this.#unsent = next === this.#unsent.length ? [] : this.#unsent.slice(next);
  }

  /** After each welcome. */
  resendAll(): void {
    this.#batches.clear();
    const notYet = new Set([this.#fresh, ...this.#inJournal].flat());
    this.#unsent = [...this.#unacknowledged.values()].filter((entry) => !notYet.has(entry));
    this.flush();
  }

  /** At each beat: resends outcomes that have waited too long for an acknowledgement. */
  resendOverdue(): void {
    this.#beat++;
    for (const [number, { entries, sentAtBeat }] of this.#batches) {
      if (this.#beat - sentAtBeat < RESEND_AFTER_BEATS) continue;
      this.#batches.delete(number);
      for (const entry of entries) if (this.#unacknowledged.get(entry.id) === entry) this.#unsent.push(entry);
    }
    this.flush();
  }

  /** Call when the server has the outcome or does not want it. */
  forget(grant: Grant): void {
    this.journal?.acknowledged(grant);
    if (!this.has(grant)) return;
    this.#unacknowledged.delete(grant.id);
    if (this.#unacknowledged.size === 0) for (const listener of this.#deliveredListeners.splice(0)) listener();
  }

  /** The same for all outcomes of the frame with this number. */
  forgetBatch(number: number): void {
    const batch = this.#batches.get(number);
    this.#batches.delete(number);
    for (const entry of batch?.entries ?? []) this.forget(entry);
  }

  /** Resolves when everything reported has been acknowledged. */
  whenDelivered(): Promise<void> {
    if (this.#unacknowledged.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#deliveredListeners.push(resolve));
  }
}

function writtenDown(outcome: Outcome, journal: Journal): Undelivered {
  const { id, fence } = outcome;
  const undelivered = { id, fence, text: outcomeText(outcome) };
  journal.finished(undelivered);
  return undelivered;
}

function outcomeText(outcome: Outcome): string {
  // the most frequent outcome, encoded by hand
  if (outcome.kind === 'succeeded' && outcome.result === undefined && outcome.children === undefined) {
    return `{"id":"${outcome.id}","fence":${outcome.fence},"kind":"succeeded","runMs":${outcome.runMs}}`;
  }
  const text = JSON.stringify(outcome);
  const excess = excessOf(text);
  if (excess === undefined) return text;
  const { id, fence } = outcome;
  const runMs = ('runMs' in outcome ? outcome.runMs : undefined) ?? 0;
  const error = new RangeError(`the outcome with its children is ${excess}`);
  return JSON.stringify(failure({ id, fence }, runMs, error, 'invalid_result'));
}

function excessOf(text: string): string | undefined {
  if (text.length <= FRAME_LENGTH) return undefined;
  if (text.length > MAX_OUTCOME_LENGTH) return `${text.length} characters; the limit is ${MAX_OUTCOME_LENGTH}`;
  const { values } = jsonShape(text);
  return values > LIMITS.jsonValues ? `${values} JSON values; the limit is ${LIMITS.jsonValues}` : undefined;
}

function takeFrame(entries: readonly Unacknowledged[], start: number): { texts: string; end: number } {
  let texts = '';
  let end = start;
  for (; end < entries.length && end - start < OUTCOMES_PER_FRAME; end++) {
    const entry = entries[end] as Unacknowledged;
    const text = 'text' in entry ? entry.text : outcomeText(entry);
    if (end > start && texts.length + text.length > FRAME_LENGTH) break;
    // Concatenated, because a join would copy every outcome once more.
    texts += end === start ? text : `,${text}`;
  }
  return { texts, end };
}
