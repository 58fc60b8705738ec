/**
 * What a journal says: which sessions had this folder, which jobs were started, which outcomes no server has
 * acknowledged. Each change is made here and gives the line that says it; reading the lines again gives the
 * same state.
 */
import type { Grant, Outcome } from '@drover/protocol';

/** About what a started job takes in the file. */
const STARTED_BYTES = 128;
const FINISHED = '["finished",';

export type Started = Grant & { type: string; onLost: string };
export type Undelivered = Grant & { text: string };
type Held = { started: Started | undefined; finished: Undelivered | undefined };

export class JournalState {
  /** Those whose jobs no server has given to a later one yet; the latest last. */
  sessions: string[] = [];
  readonly #held = new Map<string, Held>();
  /** About the size of a file that says no more than this state. */
  bytes = 0;

  session(id: string): string {
    this.sessions.push(id);
    return line(['session', id]);
  }

  /** A server has taken in the latest session, with everything that the earlier ones held. */
  adopted(): string {
    this.sessions = this.sessions.slice(-1);
    return line(['adopted']);
  }

  started(started: Started): string {
    const held = this.#hold(started);
    if (held.started === undefined) this.bytes += STARTED_BYTES;
    held.started = started;
    return line(['started', started.id, started.fence, started.type, started.onLost]);
  }

  finished(finished: Undelivered): string {
    const held = this.#hold(finished);
    this.bytes += finished.text.length - (held.finished?.text.length ?? 0);
    held.finished = finished;
    return finishedLine(finished);
  }

  /** No server needs to hear of it any more. Nothing to say if nothing was known of it. */
  acknowledged(grant: Grant): string | undefined {
    const held = this.#held.get(keyOf(grant));
    if (held === undefined) return undefined;
    this.bytes -= (held.started === undefined ? 0 : STARTED_BYTES) + (held.finished?.text.length ?? 0);
    this.#held.delete(keyOf(grant));
    return line(['acknowledged', grant.id, grant.fence]);
  }

  /** Jobs that were running when their process died. */
  unfinished(): Started[] {
    const started: Started[] = [];
    for (const held of this.#held.values()) {
      if (held.started !== undefined && held.finished === undefined) started.push(held.started);
    }
    return started;
  }

  undelivered(): Undelivered[] {
    const finished: Undelivered[] = [];
    for (const held of this.#held.values()) if (held.finished !== undefined) finished.push(held.finished);
    return finished;
  }

  /** Everything, as the body of one record. */
  lines(): string {
    let text = '';
    for (const id of this.sessions) text += line(['session', id]);
    for (const { started, finished } of this.#held.values()) {
      if (finished !== undefined) text += finishedLine(finished);
      else if (started !== undefined)
        text += line(['started', started.id, started.fence, started.type, started.onLost]);
    }
    return text;
  }

  /** Takes in the body of a record. */
  read(body: string): void {
    for (const text of body.split('\n')) if (text !== '') this.#readLine(text);
  }

  #readLine(text: string): void {
    const [kind, ...values] = JSON.parse(text) as [string, ...unknown[]];
    switch (kind) {
      case 'session':
        this.session(values[0] as string);
        return;
      case 'adopted':
        this.adopted();
        return;
      case 'started': {
        const [id, fence, type, onLost] = values as [string, number, string, string];
        this.started({ id, fence, type, onLost });
        return;
      }
      case 'finished': {
        const { id, fence } = values[0] as Outcome;
        this.finished({ id, fence, text: text.slice(FINISHED.length, -1) });
        return;
      }
      case 'acknowledged': {
        const [id, fence] = values as [string, number];
        this.acknowledged({ id, fence });
      }
    }
  }

  #hold(grant: Grant): Held {
    const key = keyOf(grant);
    let held = this.#held.get(key);
    if (held === undefined) {
      held = { started: undefined, finished: undefined };
      this.#held.set(key, held);
    }
    return held;
  }
}

/** Two grants of one job can be here at once: one that has not stopped yet, and the next. */
function keyOf({ id, fence }: Grant): string {
  return `${id}/${fence}`;
}

/** The outcome is JSON already. */
function finishedLine({ text }: Undelivered): string {
  return `${FINISHED}${text}]\n`;
}

function line(entry: unknown[]): string {
  return `${JSON.stringify(entry)}\n`;
}
