/** Denied requests in the audit trail: one row per caller and action in a minute, with how many came before it since the last. */
import type { DroverError } from '@drover/protocol';
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { auditRow, writeAudit } from './audit.js';
import { type Caller, identityOf } from './principal.js';

const SAMPLE_MS = 60_000;
/** Callers and actions in memory. Beyond it, the one that was first seen is forgotten. */
const MAX_SEEN = 10_000;

export type Denials = { note(by: Caller, error: DroverError): void };

type Deps = { db: Runner; logger: Logger; now?: () => number };

export function createDenials({ db, logger, now = () => performance.now() }: Deps): Denials {
  const seen = new Map<string, { at: number; skipped: number }>();
  return {
    note(by, { message }) {
      const key = `${by.action} ${identityOf(by.principal)}`;
      const last = seen.get(key);
      if (last && now() - last.at < SAMPLE_MS) {
        last.skipped += 1;
        return;
      }
      if (!last && seen.size >= MAX_SEEN) seen.delete(seen.keys().next().value as string);
      seen.set(key, { at: now(), skipped: 0 });
      const after = { message, ...(last && last.skipped > 0 && { skipped: last.skipped }) };
      writeAudit(db, [auditRow(by, { target: null, after }, 'denied')]).catch((error: Error) =>
        logger.warn({ event: 'audit.failed', err: error }, 'a denied request was not written to the audit trail'),
      );
    },
  };
}
