/**
 * Maps every error to an entry of the error table, whether it comes from our own code, the database, the HTTP
 * framework or Node's parser. Unexpected errors become `internal`: the answer has no detail, the log has all.
 */
import { DroverError, ERRORS } from '@drover/protocol';
import type { Logger } from 'pino';
import { DatabaseError, isPassing } from '../db/database-error.js';

/** A read was cancelled at the time limit of its connection. */
const QUERY_CANCELED = '57014';

const MIN_RETRY_AFTER_S = 1;
const MAX_RETRY_AFTER_S = 5;

type FrameworkError = { code?: unknown; statusCode?: unknown; message: string };

/** Fastify's own errors that need more than status 400. */
const FRAMEWORK_ERRORS: Record<string, () => DroverError> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new DroverError('unsupported_media_type', 'expected a body with the header content-type: application/json'),
};

export function toDroverError(error: unknown): DroverError {
  if (error instanceof DroverError) return error;
  if (error instanceof DatabaseError) return fromDatabase(error);
  const { code, statusCode, message } = error as FrameworkError;
  if (typeof code === 'string' && Object.hasOwn(FRAMEWORK_ERRORS, code)) {
    return (FRAMEWORK_ERRORS[code] as () => DroverError)();
  }
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new DroverError('invalid_request', message, undefined, { cause: error });
  }
  return new DroverError('internal', ERRORS.internal.meaning, undefined, { cause: error });
}

/** The message of the database's error stays in the log: it may name hosts, users and other users' values. */
function fromDatabase(error: DatabaseError): DroverError {
  if (error.sqlState === QUERY_CANCELED) {
    return new DroverError('database_unavailable', 'the database took too long to answer', undefined, { cause: error });
  }
  if (!isPassing(error)) return new DroverError('internal', ERRORS.internal.meaning, undefined, { cause: error });
  return new DroverError('database_unavailable', 'the database did not answer', undefined, { cause: error });
}

/** The headers for an error. */
export function errorHeaders(error: DroverError, random: () => number = Math.random): Record<string, string> {
  if (error.code === 'unauthenticated') return { 'www-authenticate': 'Bearer realm="drover"' };
  if (error.status !== 429 && error.status !== 503) return {};
  const { retryAfterSeconds } = (error.details ?? {}) as { retryAfterSeconds?: number };
  if (retryAfterSeconds !== undefined) return { 'retry-after': String(retryAfterSeconds) };
  // Random, so that clients that were refused together do not return together.
  const seconds = MIN_RETRY_AFTER_S + Math.floor(random() * (MAX_RETRY_AFTER_S - MIN_RETRY_AFTER_S + 1));
  return { 'retry-after': String(seconds) };
}

/** Logs what an operator should know: internal errors, and an unavailable database. */
export function logError(logger: Logger, error: DroverError, request: { method: string; url: string }): void {
  const context = { err: error.cause ?? error, method: request.method, path: request.url.split('?', 1)[0] };
  if (error.code === 'internal') logger.error({ event: 'request.failed', ...context }, 'a request failed');
  else if (error.code === 'database_unavailable')
    logger.warn({ event: 'request.unanswered', ...context }, 'the database did not answer a request');
}
