/**
 * The era of adds, as far as this server knows: a number in the database that changes whenever an add is repeated. A job whose
 * id was made in an era that still lasts cannot be in the history, and nobody has to look; see decision 0019.
 *
 * What always holds: an add that may have been made without a look is only repeated together with the end of its era
 * (drover.repeat_jobs). That this server knows an era that is over costs a look, and never more: PostgreSQL refuses the insert.
 */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

export type Eras = {
  /** Zero if it is not known. */
  readonly current: number;
  /** Reads it, now and again until it is known. */
  learn(): Promise<void>;
  /** PostgreSQL has refused an insert of the era that this server knows. */
  isOver(): void;
  /** This server has ended one, and this is the next. */
  begins(era: number): void;
  stop(): void;
};

type ErasOptions = {
  db: Runner;
  onError(error: Error): void;
  pauseMs?: number;
};

/** Where adds are repeated all the time, learning the era at once would mean an insert that is refused for each of them. */
const PAUSE_MS = 1000;

const readEra = sql('read_era')`select last_value from drover.era`;

export function createEras({ db, onError, pauseMs = PAUSE_MS }: ErasOptions): Eras {
  let current = 0;
  let later: NodeJS.Timeout | undefined;
  let stopped = false;

  async function learn(): Promise<void> {
    try {
      const [[era] = []] = await db.runTexts(readEra, []);
      current = Number(era);
    } catch (error) {
      onError(error as Error);
      learnLater();
    }
  }

  function learnLater(): void {
    if (stopped) return;
    later ??= setTimeout(() => {
      later = undefined;
      void learn();
    }, pauseMs).unref();
  }

  return {
    get current() {
      return current;
    },
    learn,
    isOver() {
      current = 0;
      learnLater();
    },
    begins(era) {
      current = era;
    },
    stop() {
      stopped = true;
      clearTimeout(later);
    },
  };
}
