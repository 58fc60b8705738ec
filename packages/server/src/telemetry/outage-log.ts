/**
 * One line when the database stops answering, one a minute while it does not, and one when it answers again. In that
 * time every part of the server fails again and again; what they say about it is at `debug`.
 */
import type { Logger } from 'pino';
import { DatabaseError } from '../db/database-error.js';

const REPEAT_MS = 60_000;
/** Statements must succeed for this long, or an overloaded database would be lost and found all the time. */
const CALM_MS = 5000;

export type OutageLog = {
  /** The given logger, without what the parts of the server say about a database that does not answer. */
  readonly logger: Logger;
  /** A statement or a connection has failed. */
  failed(error: Error): void;
  /** A statement was answered. Called for each one, so it must be cheap. */
  answered(): void;
};

type Outage = { since: number; failedAt: number; toldAt: number; failures: number };

export function createOutageLog(given: Logger, now: () => number = () => performance.now()): OutageLog {
  let outage: Outage | undefined;

  function tell({ since, failures }: Outage, error: Error): void {
    // An error of the driver has its connection with it, which would be a line of many pages.
    const fields = { event: 'database.unavailable', reason: error.message, forMs: Math.round(now() - since), failures };
    given.warn(fields, 'the database does not answer; the server keeps trying');
  }

  return {
    logger: withoutOutages(given),
    failed(error) {
      if (!isOutage(error) && error instanceof DatabaseError) return;
      const at = now();
      if (outage === undefined) {
        outage = { since: at, failedAt: at, toldAt: at, failures: 1 };
        tell(outage, error);
        return;
      }
      outage.failedAt = at;
      outage.failures++;
      if (at - outage.toldAt < REPEAT_MS) return;
      outage.toldAt = at;
      tell(outage, error);
    },
    answered() {
      if (outage === undefined || now() - outage.failedAt < CALM_MS) return;
      const { since, failedAt, failures } = outage;
      outage = undefined;
      const fields = { event: 'database.available', forMs: Math.round(failedAt - since), failures };
      given.warn(fields, 'the database answers again');
    },
  };
}

function isOutage(error: unknown): boolean {
  return error instanceof DatabaseError && error.kind !== 'refused';
}

function withoutOutages(given: Logger): Logger {
  const quiet = given.child({});
  for (const level of ['warn', 'error'] as const) {
    const say = quiet[level].bind(quiet) as (fields: object, message: string) => void;
    quiet[level] = (fields: unknown, message?: string) => {
      const { err } = fields as { err?: unknown };
      if (isOutage(err)) quiet.debug(fields as object, message);
      else say(fields as object, message ?? '');
    };
  }
  return quiet;
}
