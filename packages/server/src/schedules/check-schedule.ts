/** Checks a new schedule beyond its schema: patterns that can be read, at least one occurrence, a payload within its limit. */
import { DroverError, LIMITS, type NewSchedule, type ScheduleTiming, sentenceOf } from '@drover/protocol';
import { CronError, parseCron } from './timing/cron.js';
import { nextMatch } from './timing/cron-match.js';
import { type Days, occurrencesOf } from './timing/occurrences.js';

export function checkTiming(timing: ScheduleTiming, calendars: readonly Days[]): void {
  timing.specs.forEach((spec, index) => {
    if (spec.kind === 'cron') checkPattern(spec.cron, `specs[${index}].cron`);
  });
  const first = occurrencesOf({ timing, calendars }).after(0);
  if (first === undefined)
    throw invalid('specs', 'expected a schedule with at least one occurrence; this one has none');
}

/** The payload as JSON text. */
export function checkedPayload(job: NewSchedule['job']): string {
  const text = JSON.stringify(job.payload ?? null);
  const bytes = Buffer.byteLength(text);
  if (bytes <= LIMITS.schedulePayloadBytes) return text;
  const message = `job.payload: expected at most ${LIMITS.schedulePayloadBytes} bytes of JSON, got ${bytes}`;
  throw new DroverError('payload_too_large', message, {
    field: 'job.payload',
    limit: LIMITS.schedulePayloadBytes,
    bytes,
  });
}

function checkPattern(pattern: string, field: string): void {
  try {
    // a pattern that matches no time in one cycle of the calendar never matches
    if (nextMatch(parseCron(pattern), 0) !== undefined) return;
  } catch (error) {
    if (error instanceof CronError) throw invalid(field, error.message, pattern);
    throw error;
  }
  throw invalid(field, 'expected a date that exists; this one never comes', pattern);
}

function invalid(field: string, message: string, value?: string): DroverError {
  const issue = { field, message, ...(value !== undefined && { value: JSON.stringify(value) }) };
  return new DroverError('invalid_request', sentenceOf(issue), { issues: [issue] });
}
