/**
 * Delivers outcomes. They are gathered over one turn of the event loop and sent as one frame; each is
 * kept until the server has acknowledged it. Until then it is sent again on every new connection, and
 * after some beats also on the same one: the server may have lost its database for a while.
 *
 * Kept by job id, the newest fence alone: a newer grant of the same job means that the outcome of the
 * older one has been taken or would change nothing.
 *
 * With a journal, an outcome is durable before it is sent.
 */
import { type Grant, LIMITS, type Outcome } from '@drover/protocol';
import type { Journal } from './journal/journal.js';
import type { Undelivered } from './journal/journal-state.js';
import type { Link } from './link/link.js';
import { failure } from './outcome.js';

const OUTCOMES_PER_FRAME = 1000;
/** Characters of one frame; a character takes up to three bytes, so it stays below the server's limit. */
const FRAME_LENGTH = 8 * 1024 * 1024;
/** One outcome with all its children must fit into a frame by itself. */
const MAX_OUTCOME_LENGTH = Math.floor(LIMITS.frameBytes / 4);

/** Beats without an acknowledgement after which an outcome is sent again on the same connection. */
const RESEND_AFTER_BEATS = 3;

/** `sentAtBeat` is -1 while it waits to be sent, and `isDurable` false while it must not be. */
type Unacknowledged = { fence: number; text: string; sentAtBeat: number; isDurable: boolean };

export class Reporter {
  readonly #link: Link;
  readonly #flushed: () => void;
  readonly #unacknowledged = new Map<string, Unacknowledged>();
  /** Reported in this turn. */
  #fresh: Unacknowledged[] = [];
  #unsent: Unacknowledged[] = [];
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
    return Array.from(this.#unacknowledged, ([id, { fence }]) => ({ id, fence }));
  }

  report(outcome: Outcome): void {
    const { id, fence } = outcome;
    const entry = { fence, text: outcomeText(outcome), sentAtBeat: -1, isDurable: false };
    this.journal?.finished({ id, fence, text: entry.text });
    this.#unacknowledged.set(id, entry);
    this.#fresh.push(entry);
    this.flushSoon();
  }

  /** Takes over what the journal has kept; sent after the next welcome. */
  restore({ id, fence, text }: Undelivered): void {
    this.#unacknowledged.set(id, { fence, text, sentAtBeat: -1, isDurable: true });
  }

  flushSoon(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    setImmediate(() => {
      this.#isFlushDue = false;
      const fresh = this.#fresh;
      this.#fresh = [];
      if (this.journal === undefined || fresh.length === 0) this.#release(fresh);
      else void this.journal.commit().then(() => this.#release(fresh));
    });
  }

  #release(fresh: Unacknowledged[]): void {
    for (const entry of fresh) {
      entry.isDurable = true;
      this.#unsent.push(entry);
    }
    this.flush();
    this.#flushed();
  }

  /** Sends what is unsent as far as the link takes it; the rest follows when it has drained. */
  flush(): void {
    if (!this.#link.isReady) {
      // Everything unacknowledged is sent again after the next welcome.
      this.#unsent = [];
      return;
    }
    let next = 0;
    while (next < this.#unsent.length && !this.#link.isCongested) {
      const { texts, end } = takeFrame(this.#unsent, next, this.#beat);
      this.#link.send(`{"kind":"outcomes","items":[${texts.join(',')}]}`);
      next = end;
    }
    this.#unsent = next === this.#unsent.length ? [] : this.#unsent.slice(next);
  }

  /** After each welcome. */
  resendAll(): void {
    this.#unsent = [...this.#unacknowledged.values()].filter(({ isDurable }) => isDurable);
    for (const entry of this.#unsent) entry.sentAtBeat = -1;
    this.flush();
  }

  /** At each beat: what was sent long ago is sent again. */
  resendOverdue(): void {
    this.#beat++;
    for (const entry of this.#unacknowledged.values()) {
      if (entry.sentAtBeat === -1 || this.#beat - entry.sentAtBeat < RESEND_AFTER_BEATS) continue;
      entry.sentAtBeat = -1;
      this.#unsent.push(entry);
    }
    this.flush();
  }

  /** The server has it, or wants to hear no more of it. */
  forget(grant: Grant): void {
    this.journal?.acknowledged(grant);
    if (!this.has(grant)) return;
    this.#unacknowledged.delete(grant.id);
    if (this.#unacknowledged.size === 0) for (const listener of this.#deliveredListeners.splice(0)) listener();
  }

  /** Resolves when everything reported has been acknowledged. */
  whenDelivered(): Promise<void> {
    if (this.#unacknowledged.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#deliveredListeners.push(resolve));
  }
}

function outcomeText(outcome: Outcome): string {
  // by hand what nearly all of them are
  if (outcome.kind === 'succeeded' && outcome.result === undefined && outcome.children === undefined) {
    return `{"id":"${outcome.id}","fence":${outcome.fence},"kind":"succeeded","runMs":${outcome.runMs}}`;
  }
  const text = JSON.stringify(outcome);
  if (text.length <= MAX_OUTCOME_LENGTH) return text;
  const { id, fence } = outcome;
  const runMs = 'runMs' in outcome ? outcome.runMs : 0;
  const error = new RangeError(
    `the outcome with its children is ${text.length} characters; the limit is ${MAX_OUTCOME_LENGTH}`,
  );
  return JSON.stringify(failure({ id, fence }, runMs, error, 'invalid_result'));
}

function takeFrame(entries: readonly Unacknowledged[], start: number, beat: number): { texts: string[]; end: number } {
  const texts: string[] = [];
  let length = 0;
  let end = start;
  for (; end < entries.length && texts.length < OUTCOMES_PER_FRAME; end++) {
    const entry = entries[end] as Unacknowledged;
    const { text } = entry;
    if (texts.length > 0 && length + text.length > FRAME_LENGTH) break;
    entry.sentAtBeat = beat;
    texts.push(text);
    length += text.length;
  }
  return { texts, end };
}
