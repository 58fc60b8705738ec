/**
 * What really ran: a file to which all workers append one line per event, each with one write, so that lines stay
 * complete and survive a kill. It is independent of the database.
 */
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type WitnessEvent = {
  event: 'start' | 'end' | 'aborted' | 'keys';
  id: string;
  type: string;
  queue: string;
  attempt: number;
  worker: string;
  pid: number;
  /** Milliseconds of a monotonic clock that all processes of this machine share. */
  at: number;
  /** Why the signal was aborted. */
  reason?: string;
  /** What the handler was given to recognise repetitions. */
  keys?: { id: string; idempotencyKey: string; attempt: number; fence: number };
};

export type Witness = {
  readonly path: string;
  events(filter?: Partial<WitnessEvent>): WitnessEvent[];
  /** The largest number of handlers that one worker ran at the same time. */
  mostAtOnce(worker: string): number;
  remove(): void;
};

export function createWitness(): Witness {
  const folder = mkdtempSync(join(tmpdir(), 'drover-witness-'));
  const path = join(folder, 'events');
  closeSync(openSync(path, 'a'));

  function events(filter: Partial<WitnessEvent> = {}): WitnessEvent[] {
    const wanted = Object.entries(filter) as [keyof WitnessEvent, unknown][];
    return readFileSync(path, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as WitnessEvent)
      .filter((event) => wanted.every(([key, value]) => event[key] === value));
  }

  return {
    path,
    events,
    mostAtOnce(worker) {
      let running = 0;
      let most = 0;
      for (const { event } of events({ worker })) {
        if (event === 'start') running += 1;
        if (event === 'end') running -= 1;
        most = Math.max(most, running);
      }
      return most;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
