/** The exit codes, as one table. Scripts rely on these numbers. */
import { DroverError, type ErrorCode } from '@drover/protocol';
import { ConnectionError, JobCancelledError, JobFailedError } from '@drover/sdk';
import { CommanderError } from 'commander';
import { ConfigError } from '../config/config-error.js';

export const EXIT_CODES = {
  ok: { code: 0, meaning: 'done' },
  failure: { code: 1, meaning: 'it did not work; the message says why' },
  usage: { code: 2, meaning: 'the command line or the configuration is wrong; nothing was done' },
  unreachable: { code: 3, meaning: 'no server answered' },
  jobFailed: { code: 4, meaning: 'the job that was waited for failed or was cancelled' },
  notFound: { code: 5, meaning: 'there is no such job, worker, schedule, calendar or token' },
} as const;

export type ExitName = keyof typeof EXIT_CODES;

/** A wrong argument or flag on the command line. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const BY_ERROR_CODE: Partial<Record<ErrorCode, ExitName>> = {
  invalid_request: 'usage',
  invalid_cursor: 'usage',
  payload_too_large: 'usage',
  not_found: 'notFound',
  job_not_found: 'notFound',
  worker_not_found: 'notFound',
  schedule_not_found: 'notFound',
  calendar_not_found: 'notFound',
  token_not_found: 'notFound',
  range_too_large: 'usage',
};

export function exitNameOf(error: unknown): ExitName {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 'ok' : 'usage';
  if (error instanceof ConfigError || error instanceof UsageError) return 'usage';
  if (error instanceof ConnectionError) return 'unreachable';
  if (error instanceof JobFailedError || error instanceof JobCancelledError) return 'jobFailed';
  if (error instanceof DroverError) return BY_ERROR_CODE[error.code] ?? 'failure';
  return 'failure';
}

/** The message for a person, without a stack. */
export function describeError(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // A connection that was refused by every address of a name is an AggregateError without a message of its own.
  if (error instanceof AggregateError && message === '') return error.errors.map(describeError).join('; ');
  return message;
}
