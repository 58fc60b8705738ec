/**
 * The content of a journal: which sessions used this folder, which jobs were started, which outcomes no server has
 * acknowledged. Each change returns the line that records it; reading the lines again gives the same state.
 */
import { type Grant, LIMITS, type Outcome, type PreviousSession } from '@drover/protocol';

/** Approximate size of a started job in the file. */
const STARTED_BYTES = 128;
const FINISHED = '["finished",';

export type Started = Grant & { type: string; onLost?: string | undefined };
export type Undelivered = Grant & { text: string };
/** Up to two grants of one job: one that has not stopped yet, and the next. */
type Held = {
  fence: number;
  started: Started | undefined;
  finished: Undelivered | undefined;
  other: Held | undefined;
};

export class JournalState {
  /**
   * Sessions whose jobs no server has transferred to a later session, latest last. The first is the last one that a
   * server has accepted, and the journal's entries belong to it. Later ones can at most have been granted jobs that
   * they never received, so when there are too many, one of these is dropped.
   */
  sessions: PreviousSession[] = [];
  clusterId: string | undefined;
  /** Jobs of those sessions may be missing: a part of an earlier file could not be read. */
  isIncomplete = false;
  /** By job id. */
  readonly #held = new Map<string, Held>();
  /** Approximate size of a file that contains only this state. */
  bytes = 0;

  session(session: PreviousSession): string {
    this.sessions.push(session);
    if (this.sessions.length > LIMITS.previousSessions + 1) this.sessions.splice(1, 1);
    return sessionLine(session);
  }

  /** Call when a server of this cluster has accepted the latest session, with everything that earlier ones held. */
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
    // The end of the job implies its start, and the start may hold a whole assignment in memory.
    held.started = undefined;
    this.#dropOlderOutcome(finished.id);
    return finishedLine(finished);
  }

  /** Call when servers need no more reports of it. Undefined if nothing was recorded. */
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

  /** At most one per job. */
  undelivered(): Undelivered[] {
    const finished: Undelivered[] = [];
    for (const held of this.#all()) if (held.finished !== undefined) finished.push(held.finished);
    return finished;
  }

  /** The whole state, as the body of one record. */
  lines(): string {
    // First, because the lines that follow are newer.
    let text = this.clusterId === undefined ? '' : line(['adopted', this.clusterId]);
    for (const session of this.sessions) text += sessionLine(session);
    if (this.isIncomplete) text += line(['incomplete']);
    for (const { started, finished } of this.#all()) {
      if (finished !== undefined) text += finishedLine(finished);
      else if (started !== undefined) text += startedLine(started);
    }
    return text;
  }

  /** Reads the body of a record. */
  read(body: string): void {
    for (const text of body.split('\n')) if (text !== '') this.#readLine(text);
  }

  #readLine(text: string): void {
    const [kind, ...values] = JSON.parse(text) as [string, ...unknown[]];
    switch (kind) {
      case 'session':
        this.session({ id: values[0] as string, resumeKey: values[1] as string });
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
    // Of three grants, the oldest no longer matters.
    if (first?.other !== undefined) this.acknowledged({ id, fence: Math.min(first.fence, first.other.fence) });
    const held: Held = { fence, started: undefined, finished: undefined, other: this.#held.get(id) };
    this.#held.set(id, held);
    return held;
  }

  /** A newer grant proves that a server has the older outcome, or that the outcome would change nothing. */
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

/** Built by hand, as for acknowledgements: ids are UUIDs, and this runs for each job. */
function startedLine({ id, fence, type, onLost = 'rerun' }: Started): string {
  return `["started","${id}",${fence},${JSON.stringify(type)},"${onLost}"]\n`;
}

/** The outcome is JSON already. */
function finishedLine({ text }: Undelivered): string {
  return `${FINISHED}${text}]\n`;
}

function sessionLine({ id, resumeKey }: PreviousSession): string {
  return line(['session', id, resumeKey]);
}

function line(entry: unknown[]): string {
  return `${JSON.stringify(entry)}\n`;
}
