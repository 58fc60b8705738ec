/**
 * What a journal says: which sessions had this folder, which jobs were started, which outcomes no server has
 * acknowledged. Each change is made here and gives the line that says it; reading the lines again gives the
 * same state.
 */
import { type Grant, LIMITS, type Outcome } from '@drover/protocol';

/** About what a started job takes in the file. */
const STARTED_BYTES = 128;
const FINISHED = '["finished",';

export type Started = Grant & { type: string; onLost?: string | undefined };
export type Undelivered = Grant & { text: string };
/** One grant. Two of one job can be here at once: one that has not stopped yet, and the next. */
type Held = {
  fence: number;
  started: Started | undefined;
  finished: Undelivered | undefined;
  other: Held | undefined;
};

export class JournalState {
  /**
   * Those whose jobs no server has given to a later one yet; the latest last. The first is the last that a server has
   * taken in, and what the journal knows of is that one's. Later ones can at most have been granted what they never
   * heard of, so of too many it is one of these that goes.
   */
  sessions: string[] = [];
  clusterId: string | undefined;
  /** Of what those sessions started, some may be missing here: a part of an earlier file could not be read. */
  isIncomplete = false;
  /** By job id. */
  readonly #held = new Map<string, Held>();
  /** About the size of a file that says no more than this state. */
  bytes = 0;

  session(id: string): string {
    this.sessions.push(id);
    if (this.sessions.length > LIMITS.previousSessions + 1) this.sessions.splice(1, 1);
    return line(['session', id]);
  }

  /** A server of this cluster has taken in the latest session, with everything that the earlier ones held. */
  adopted(clusterId: string): string {
    this.sessions = this.sessions.slice(-1);
    this.clusterId = clusterId;
    this.isIncomplete = false;
    return line(['adopted', clusterId]);
  }

  incomplete(): string {
    this.isIncomplete = true;
    return line(['incomplete']);
  }

  started(started: Started): string {
    const held = this.#hold(started);
    this.bytes += STARTED_BYTES - bytesOf(held);
    held.started = started;
    held.finished = undefined;
    return startedLine(started);
  }

  finished(finished: Undelivered): string {
    const held = this.#hold(finished);
    this.bytes += finished.text.length - bytesOf(held);
    held.finished = finished;
    // Its end says that it was started; and it may keep a whole assignment in memory.
    held.started = undefined;
    this.#dropOlderOutcome(finished.id);
    return finishedLine(finished);
  }

  /** No server needs to hear of it any more. Nothing to say if nothing was known of it. */
  acknowledged(grant: Grant): string | undefined {
    const { id, fence } = grant;
    const first = this.#held.get(id);
    const held = first?.fence === fence ? first : first?.other;
    if (held?.fence !== fence) return undefined;
    this.bytes -= bytesOf(held);
    const rest = held === first ? held.other : first;
    if (rest === undefined) {
      this.#held.delete(id);
    } else {
      rest.other = undefined;
      this.#held.set(id, rest);
    }
    return `["acknowledged","${grant.id}",${grant.fence}]\n`;
  }

  /** Jobs that were running when their process died. */
  unfinished(): Started[] {
    const started: Started[] = [];
    for (const held of this.#all()) if (held.started !== undefined) started.push(held.started);
    return started;
  }

  /** At most one of each job. */
  undelivered(): Undelivered[] {
    const finished: Undelivered[] = [];
    for (const held of this.#all()) if (held.finished !== undefined) finished.push(held.finished);
    return finished;
  }

  /** Everything, as the body of one record. */
  lines(): string {
    // First: what follows has come since.
    let text = this.clusterId === undefined ? '' : line(['adopted', this.clusterId]);
    for (const id of this.sessions) text += line(['session', id]);
    if (this.isIncomplete) text += line(['incomplete']);
    for (const { started, finished } of this.#all()) {
      if (finished !== undefined) text += finishedLine(finished);
      else if (started !== undefined) text += startedLine(started);
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
        this.adopted(values[0] as string);
        return;
      case 'incomplete':
        this.incomplete();
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

  #hold({ id, fence }: Grant): Held {
    const first = this.#held.get(id);
    if (first?.fence === fence) return first;
    if (first?.other?.fence === fence) return first.other;
    // Of three grants, the oldest can no longer matter to anyone.
    if (first?.other !== undefined) this.acknowledged({ id, fence: Math.min(first.fence, first.other.fence) });
    const held: Held = { fence, started: undefined, finished: undefined, other: this.#held.get(id) };
    this.#held.set(id, held);
    return held;
  }

  /** A newer grant proves that a server has taken the older outcome, or that it would change nothing. */
  #dropOlderOutcome(id: string): void {
    const first = this.#held.get(id);
    if (first?.finished === undefined || first.other?.finished === undefined) return;
    this.acknowledged({ id, fence: Math.min(first.fence, first.other.fence) });
  }

  *#all(): Generator<Held> {
    for (const held of this.#held.values()) {
      yield held;
      if (held.other !== undefined) yield held.other;
    }
  }
}

function bytesOf({ started, finished }: Held): number {
  if (finished !== undefined) return finished.text.length;
  return started === undefined ? 0 : STARTED_BYTES;
}

/** By hand, as for acknowledgements: ids are UUIDs, and this is done for each job. */
function startedLine({ id, fence, type, onLost = 'rerun' }: Started): string {
  return `["started","${id}",${fence},${JSON.stringify(type)},"${onLost}"]\n`;
}

/** The outcome is JSON already. */
function finishedLine({ text }: Undelivered): string {
  return `${FINISHED}${text}]\n`;
}

function line(entry: unknown[]): string {
  return `${JSON.stringify(entry)}\n`;
}
