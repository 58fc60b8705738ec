/** The error for a request whose jobs the database has refused. */
import { DroverError, type FieldIssue } from '@drover/protocol';
import { DatabaseError } from '../db/database-error.js';
import type { JobToInsert } from '../new-jobs/job-to-insert.js';

/** PostgreSQL's class of errors about values. */
const DATA_EXCEPTION = '22';
const SHOWN_ISSUES = 20;

export function refusalOf(jobs: readonly JobToInsert[], error: Error): Error {
  if (!(error instanceof DatabaseError) || !error.sqlState?.startsWith(DATA_EXCEPTION)) return error;
  const issues = jobs
    .map(({ payload }, place) => ({ field: `jobs[${place}].payload`, message: whyNotJson(payload) }))
    .filter((issue): issue is FieldIssue => issue.message !== undefined)
    .slice(0, SHOWN_ISSUES);
  if (issues.length === 0) {
    return new DroverError('invalid_request', `the database refused the jobs: ${error.message}`);
  }
  return new DroverError('invalid_request', issues.map(({ field, message }) => `${field}: ${message}`).join('; '), {
    issues,
  });
}

/** Undefined if the text is valid JSON. */
function whyNotJson(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `not valid JSON: ${(error as Error).message}`;
  }
}
