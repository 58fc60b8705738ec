/**
 * What a failed statement means for the one who sent it.
 * - `refused`: the server answered with an error; nothing was changed.
 * - `unavailable`: it was never sent, or surely not carried out; nothing was changed.
 * - `unknown`: no answer came. It may have been committed; repeat it idempotently or read back.
 */
export const DATABASE_ERROR_KINDS = ['refused', 'unavailable', 'unknown'] as const;
export type DatabaseErrorKind = (typeof DATABASE_ERROR_KINDS)[number];

export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  readonly kind: DatabaseErrorKind;
  /** The SQLSTATE, where PostgreSQL gave one. */
  readonly sqlState: string | undefined;

  constructor(kind: DatabaseErrorKind, message: string, sqlState?: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
    this.sqlState = sqlState;
  }
}

/** Five characters, one of them a digit: `EPIPE` is none. */
const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/** Deadlock and serialization failure: PostgreSQL chose us to give way, the same statement may be sent again. */
const TRY_AGAIN_STATES = new Set(['40001', '40P01']);
/** The server is starting, stopping, full or read-only: it will pass, or another server will answer. */
const UNAVAILABLE_CLASSES = ['08', '53', '57P', '25006'];

export function toDatabaseError(error: Error, sent: 'sent' | 'not sent'): DatabaseError {
  if (error instanceof DatabaseError) return error;
  const state = (error as { code?: unknown }).code;
  const sqlState = typeof state === 'string' && SQL_STATE.test(state) ? state : undefined;
  const kind = kindOf(sqlState, sent);
  return new DatabaseError(kind, error.message, sqlState, { cause: error });
}

function kindOf(sqlState: string | undefined, sent: 'sent' | 'not sent'): DatabaseErrorKind {
  if (sent === 'not sent') return 'unavailable';
  if (sqlState === undefined || sqlState.startsWith('08')) return 'unknown';
  if (sqlState.startsWith('57P')) return 'unknown';
  if (UNAVAILABLE_CLASSES.some((prefix) => sqlState.startsWith(prefix))) return 'unavailable';
  return 'refused';
}

/** Whether sending the same statement again, a little later, can be expected to help. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false;
  return error.kind !== 'refused' || (error.sqlState !== undefined && TRY_AGAIN_STATES.has(error.sqlState));
}
