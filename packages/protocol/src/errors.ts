/**
 * Every error that Drover reports to a caller, as one table: a stable code, the HTTP status, and whether the same
 * request may succeed later unchanged.
 */
export const ERRORS = {
  invalid_request: { status: 400, retryable: false, meaning: 'a field is missing, unknown or of the wrong form' },
  invalid_json: { status: 400, retryable: false, meaning: 'the body is not valid JSON' },
  invalid_cursor: { status: 400, retryable: false, meaning: 'the cursor was not made by this list' },
  unauthenticated: { status: 401, retryable: false, meaning: 'no token, or not a known one' },
  forbidden: { status: 403, retryable: false, meaning: 'the token has no role that may do this' },
  not_found: { status: 404, retryable: false, meaning: 'there is nothing at this address' },
  job_not_found: { status: 404, retryable: false, meaning: 'no such job, or its history has been pruned' },
  type_not_found: { status: 404, retryable: false, meaning: 'no worker has registered this job type' },
  worker_not_found: { status: 404, retryable: false, meaning: 'no such worker, or it has ended' },
  schedule_not_found: { status: 404, retryable: false, meaning: 'no such schedule' },
  workflow_not_found: { status: 404, retryable: false, meaning: 'no such workflow, or no such version of it' },
  run_not_found: { status: 404, retryable: false, meaning: 'no such run, or its retention is over' },
  calendar_not_found: { status: 404, retryable: false, meaning: 'no such calendar' },
  token_not_found: { status: 404, retryable: false, meaning: 'no such token, or it is revoked' },
  method_not_allowed: { status: 405, retryable: false, meaning: 'the address exists, the method does not' },
  not_acceptable: { status: 406, retryable: false, meaning: 'no common protocol version' },
  wrong_state: { status: 409, retryable: false, meaning: 'the job or run is not in a state that allows this' },
  type_in_use: { status: 409, retryable: false, meaning: 'a live worker offers this job type' },
  calendar_in_use: { status: 409, retryable: false, meaning: 'a schedule excludes the days of this calendar' },
  token_exists: { status: 409, retryable: false, meaning: 'another token has this name' },
  overtaken: { status: 409, retryable: true, meaning: 'a newer connection of the same worker has come before' },
  wrong_cluster: { status: 409, retryable: false, meaning: 'the worker holds jobs of another cluster' },
  payload_too_large: { status: 413, retryable: false, meaning: 'the payload is over its limit' },
  request_too_large: { status: 413, retryable: false, meaning: 'the request body is over its limit' },
  batch_too_large: { status: 413, retryable: false, meaning: 'too many jobs in one batch' },
  range_too_large: { status: 413, retryable: false, meaning: 'too many occurrences in the range of one backfill' },
  unsupported_media_type: { status: 415, retryable: false, meaning: 'the body is not JSON' },
  overloaded: { status: 429, retryable: true, meaning: 'too much is waiting on this server; nothing was accepted' },
  too_many_attempts: { status: 429, retryable: true, meaning: 'too many wrong tokens came from this address' },
  internal: { status: 500, retryable: true, meaning: 'a fault of Drover; the log of the server has more' },
  database_unavailable: {
    status: 503,
    retryable: true,
    meaning: 'the database did not confirm; whether the change was made is not known, repeating it is safe',
  },
  shutting_down: { status: 503, retryable: true, meaning: 'this server is stopping; another one will answer' },
} as const;

export type ErrorCode = keyof typeof ERRORS;

/** One problem of a request: the field, its value, and what was expected. */
export type FieldIssue = { field: string; message: string; value?: unknown };

export type ErrorBody = { error: { code: ErrorCode; message: string; details?: unknown } };

/** An error with a code of the table. Servers answer with it; the client throws it. */
export class DroverError extends Error {
  override readonly name = 'DroverError';
  readonly code: ErrorCode;
  readonly details: unknown;

  constructor(code: ErrorCode, message: string, details?: unknown, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.details = details;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }

  toBody(): ErrorBody {
    const { code, message, details } = this;
    return { error: details === undefined ? { code, message } : { code, message, details } };
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ERRORS, value);
}
