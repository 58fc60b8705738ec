/**
 * What a failed statement or transaction means for its caller:
 * - `refused`: PostgreSQL answered with an error; nothing was changed.
 * - `unavailable`: it was never sent, or certainly not committed; nothing was changed.
 * - `unknown`: there was no answer. It may be committed; repeat it idempotently or read back.
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

/** Five characters, one of them a digit: `EPIPE` is not a SQLSTATE. */
const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/** Serialization failure and deadlock: PostgreSQL rolled this transaction back in favour of another one. */
const SERIALIZATION_FAILURES = new Set(['40001', '40P01']);
/** PostgreSQL is starting, stopping, full or read-only: this passes, or another host answers. */
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

/** Whether the same statement can succeed a little later. */
export function isPassing(error: unknown): boolean {
  return (error instanceof DatabaseError && error.kind !== 'refused') || isSerializationFailure(error);
}

/** Whether the transaction was rolled back in favour of another one; it can be run again at once. */
export function isSerializationFailure(error: unknown): boolean {
  return error instanceof DatabaseError && error.sqlState !== undefined && SERIALIZATION_FAILURES.has(error.sqlState);
}

/** Whether the statement may have been executed. */
export function isUnknown(error: unknown): boolean {
  return error instanceof DatabaseError && error.kind === 'unknown';
}
