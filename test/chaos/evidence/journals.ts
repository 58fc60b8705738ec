/**
 * The journals of workers as their processes left them: the supervisor copies the file when a process has ended,
 * before the next one may change it. Read here without the code of the SDK, which is under test: the entries are
 * lines of JSON between the headers of the records.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Instance } from '../system/units.js';

/** A journal's information on one grant. `outcome` is the kind of the unacknowledged outcome, if it had ended. */
export type JournalEntry = { isStarted: boolean; outcome: string | undefined; isAcknowledged: boolean };
/** By grant: `grantKey(id, fence)`. */
export type Journal = ReadonlyMap<string, JournalEntry>;
/** By the key of the process that left it. */
export type Journals = ReadonlyMap<string, Journal>;

export function grantKey(id: string, fence: number): string {
  return `${id} ${fence}`;
}

export function readJournals(folder: string, instances: readonly Instance[]): Journals {
  const journals = new Map<string, Journal>();
  for (const { key, role } of instances) {
    const path = join(folder, key);
    if (role === 'worker' && existsSync(path)) journals.set(key, parseJournal(readFileSync(path, 'utf8')));
  }
  return journals;
}

export function parseJournal(text: string): Journal {
  const journal = new Map<string, JournalEntry>();
  const entryOf = (id: string, fence: number) => {
    const key = grantKey(id, fence);
    const entry = journal.get(key) ?? { isStarted: false, outcome: undefined, isAcknowledged: false };
    journal.set(key, entry);
    return entry;
  };
  const lines = text.split('\n');
  // the end of the process may have cut off the last line
  for (const line of lines.slice(0, -1)) {
    if (!line.startsWith('["')) continue;
    const [kind, ...values] = parseLine(line);
    if (kind === 'started') {
      const [id, fence] = values as [string, number];
      entryOf(id, fence).isStarted = true;
    } else if (kind === 'finished') {
      const { id, fence, kind: outcome } = values[0] as { id: string; fence: number; kind: string };
      entryOf(id, fence).outcome = outcome;
    } else if (kind === 'acknowledged') {
      const [id, fence] = values as [string, number];
      entryOf(id, fence).isAcknowledged = true;
    }
  }
  return journal;
}

function parseLine(line: string): unknown[] {
  try {
    return JSON.parse(line) as unknown[];
  } catch {
    // a torn record in the middle of a file: the next process starts a new file after it
    return [];
  }
}
