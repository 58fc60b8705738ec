/** Jobs as text for the terminal. */
import {
  type Attempt,
  formatDuration,
  type Job,
  type JobError,
  type JobWithAttempts,
  type ListedJob,
} from '@drover/protocol';
import { type Cell, formatFields, formatSpan, formatTable, jsonText } from './output.js';
import { type TextFormat, wrap } from './text-format.js';

export function jobsText(jobs: readonly ListedJob[], nextCursor: string | null, { time }: TextFormat): string {
  if (jobs.length === 0) return 'no jobs';
  const rows = jobs.map((job): Cell[] => [
    ...[job.id, job.type, job.queue, job.state, `${job.attempt}/${job.maxAttempts}`],
    ...[time(job.createdAt), time(job.finishedAt), job.error?.message],
  ]);
  const table = formatTable(['id', 'type', 'queue', 'state', 'attempt', 'created', 'finished', 'error'], rows);
  return nextCursor === null ? table : `${table}\nmore: --cursor ${nextCursor}`;
}

export function jobText(job: Job | JobWithAttempts, format: TextFormat): string {
  const { time } = format;
  const fields = formatFields([
    ['id', job.id],
    ['type', job.type],
    ['queue', job.queue],
    ['state', job.cancelRequestedAt && job.finishedAt === null ? `${job.state} (cancel requested)` : job.state],
    ['priority', job.priority],
    ['attempt', `${job.attempt} of ${job.maxAttempts}`],
    ['worker', job.worker],
    ['tags', job.tags.join(', ')],
    ['created', time(job.createdAt)],
    ['run at', time(job.runAt)],
    ['started', time(job.startedAt)],
    ['finished', time(job.finishedAt)],
    ['expires', time(job.expiresAt)],
    ['back-off', jsonText(job.backoff)],
    ['when lost', job.onLost === 'hold' ? 'hold' : null],
    ['on failure', job.onFailure],
    ['idempotency key', job.idempotencyKey],
    ['timeout', job.timeout === null ? null : formatDuration(job.timeout)],
    ['retention', job.retention === null ? null : formatDuration(job.retention)],
    ['parent', job.parentId],
    ['schedule', job.occurrence && `${job.occurrence.schedule} for ${time(job.occurrence.nominalAt)}`],
    ['run', job.run && `${job.run.id}, step ${job.run.step}${job.run.item === null ? '' : `, item ${job.run.item}`}`],
    ['payload', jsonText(job.payload)],
    ['progress', jsonText(job.progress)],
    ['result', jsonText(job.result)],
  ]);
  const parts = [fields];
  if ('attempts' in job && job.attempts.length > 0) parts.push(attemptsText(job.attempts, format));
  const last = lastError(job);
  if (last !== null) parts.push(wrap(`last error:\n${errorText(last)}`, format.columns));
  return parts.join('\n\n');
}

/** A job that will be tried again has none of its own. */
function lastError(job: Job | JobWithAttempts): JobError | null {
  if (job.error !== null || !('attempts' in job)) return job.error;
  return job.attempts.findLast(({ error }) => error !== null)?.error ?? null;
}

/** Stacks of most runtimes begin with the name and the message. */
function errorText({ name, message, stack }: JobError): string {
  const head = `${name}: ${message}`;
  if (stack === undefined) return head;
  return stack.includes(message) ? stack : `${head}\n${stack}`;
}

function attemptsText(attempts: readonly Attempt[], { time }: TextFormat): string {
  const rows = attempts.map((attempt): Cell[] => [
    ...[attempt.attempt, attempt.outcome, time(attempt.startedAt), tookText(attempt), attempt.worker],
    attempt.error?.message,
  ]);
  return formatTable(['attempt', 'outcome', 'started', 'took', 'worker', 'error'], rows);
}

function tookText({ startedAt, finishedAt }: { startedAt: string | null; finishedAt: string | null }): string | null {
  if (startedAt === null || finishedAt === null) return null;
  return formatSpan(Date.parse(finishedAt) - Date.parse(startedAt));
}
