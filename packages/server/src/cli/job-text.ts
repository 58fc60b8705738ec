/** Jobs as text for the terminal. */
import { formatDuration, type Job, type JobWithAttempts, type ListedJob } from '@drover/protocol';
import { type Cell, formatFields, formatSpan, formatTable, formatTime, printable } from './output.js';

export function jobsText(jobs: readonly ListedJob[], nextCursor: string | null): string {
  if (jobs.length === 0) return 'no jobs';
  const rows = jobs.map((job): Cell[] => [
    ...[job.id, job.type, job.queue, job.state, `${job.attempt}/${job.maxAttempts}`],
    ...[formatTime(job.createdAt), formatTime(job.finishedAt), job.error?.message],
  ]);
  const table = formatTable(['id', 'type', 'queue', 'state', 'attempt', 'created', 'finished', 'error'], rows);
  return nextCursor === null ? table : `${table}\nmore: --cursor ${nextCursor}`;
}

export function jobText(job: Job | JobWithAttempts): string {
  const fields = formatFields([
    ['id', job.id],
    ['type', job.type],
    ['queue', job.queue],
    ['state', job.cancelRequestedAt && job.finishedAt === null ? `${job.state} (cancel requested)` : job.state],
    ['priority', job.priority],
    ['attempt', `${job.attempt} of ${job.maxAttempts}`],
    ['worker', job.worker],
    ['tags', printable(job.tags.join(', '))],
    ['created', formatTime(job.createdAt)],
    ['run at', formatTime(job.runAt)],
    ['started', formatTime(job.startedAt)],
    ['finished', formatTime(job.finishedAt)],
    ['expires', formatTime(job.expiresAt)],
    ['back-off', jsonText(job.backoff)],
    ['when lost', job.onLost === 'hold' ? 'hold' : null],
    ['on failure', job.onFailure],
    ['idempotency key', job.idempotencyKey],
    ['timeout', job.timeout === null ? null : formatDuration(job.timeout)],
    ['retention', job.retention === null ? null : formatDuration(job.retention)],
    ['parent', job.parentId],
    ['schedule', job.occurrence && `${job.occurrence.schedule} for ${formatTime(job.occurrence.nominalAt)}`],
    ['payload', jsonText(job.payload)],
    ['progress', jsonText(job.progress)],
    ['result', jsonText(job.result)],
    ['error', job.error ? printable(`${job.error.name}: ${job.error.message}`) : null],
  ]);
  const parts = [fields];
  if ('attempts' in job && job.attempts.length > 0) parts.push(attemptsText(job));
  if (job.error?.stack) parts.push(stackText(job.error.stack));
  return parts.join('\n\n');
}

function stackText(stack: string): string {
  return stack.split('\n').map(printable).join('\n');
}

function attemptsText(job: JobWithAttempts): string {
  const rows = job.attempts.map((attempt): Cell[] => [
    ...[attempt.attempt, attempt.outcome, formatTime(attempt.startedAt), tookText(attempt), attempt.worker],
    attempt.error?.message,
  ]);
  return formatTable(['attempt', 'outcome', 'started', 'took', 'worker', 'error'], rows);
}

function tookText({ startedAt, finishedAt }: { startedAt: string | null; finishedAt: string | null }): string | null {
  if (startedAt === null || finishedAt === null) return null;
  return formatSpan(Date.parse(finishedAt) - Date.parse(startedAt));
}

function jsonText(value: unknown): string | null {
  return value === null || value === undefined ? null : printable(JSON.stringify(value));
}
