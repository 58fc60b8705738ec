/** Converts schedules between rows of the database and what the API takes and answers. */
import { DroverError, type NewSchedule, type Schedule, type ScheduleSpec, writtenSpec } from '@drover/protocol';
import { isoTime, isoTimeOrNull } from '../base/iso-time.js';
import { describeSchedule } from './timing/describe.js';
import type { Definition } from './timing/timetable.js';

/** A timestamp as whole milliseconds, rounded down. Nominal times have no fractions. */
export const milliseconds = (column: string) => `floor(extract(epoch from ${column}) * 1000)::double precision`;

/** The present by the database's clock, in whole milliseconds. */
export const NOW = `date_trunc('milliseconds', now())`;

/** A change by a person, or of a calendar: the new definition counts from now on. */
export const CHANGED_NOW = `handled_until = greatest(handled_until, ${NOW}), revision = revision + 1, updated_at = now()`;

/** Sets in the row `s` which release of the time zone rules, a parameter, the next time `g` was found by. */
export const foundByRules = (rules: '$1' | '$2') => `zone_rules = ${rules}, next_offset_ms = g.next_offset_ms,
    rules_outdated = coalesce(s.zone_rules > ${rules}, false)`;

/** The job of a schedule as the database keeps it. A firing adds the id and the occurrence. `payload` is JSON text. */
type JobRow = Pick<NewSchedule['job'], 'type' | 'queue' | 'complete'> & {
  payload: string;
  options: Omit<NewSchedule['job'], 'type' | 'queue' | 'complete' | 'payload'>;
};

export function toJobRow(
  { type, queue, complete, payload: _, ...options }: NewSchedule['job'],
  payloadText: string,
): string {
  const row: JobRow = { type, queue, complete, payload: payloadText, options };
  return JSON.stringify(row);
}

export type ScheduleRow = {
  name: string;
  definition: Definition;
  job: JobRow;
  version: number;
  next_at: Date | null;
  due_at: Date | null;
  waiting_at: Date | null;
  last_fired_at: Date | null;
  last_job_id: string | null;
  fired: string;
  skipped: string;
  ended: boolean;
  paused_at: Date | null;
  paused_by: string | null;
  pause_note: string | null;
  created_at: Date;
  updated_at: Date;
};

export const SCHEDULE_COLUMNS = `name, definition, job, version, next_at, due_at, waiting_at, last_fired_at, last_job_id,
    fired, skipped, ended, paused_at, paused_by, pause_note, created_at, updated_at`;

export function toSchedule(row: ScheduleRow): Schedule {
  const { definition } = row;
  return {
    name: row.name,
    description: definition.description ?? null,
    group: definition.group ?? null,
    state: row.ended ? 'ended' : row.paused_at ? 'paused' : 'active',
    text: describeSchedule(definition),
    specs: definition.specs.map((spec: ScheduleSpec) => writtenSpec(spec)),
    timeZone: definition.timeZone,
    gap: definition.gap,
    repeat: definition.repeat ?? null,
    exclude: { dates: definition.exclude?.dates ?? [], calendars: definition.exclude?.calendars ?? [] },
    start: definition.start ?? null,
    end: definition.end ?? null,
    spread: definition.spread ?? null,
    jitter: definition.jitter ?? null,
    maxOccurrences: definition.maxOccurrences ?? null,
    catchUp: definition.catchUp,
    catchUpWindow: definition.catchUpWindow,
    overlap: definition.overlap,
    pauseAfterFailures: definition.pauseAfterFailures ?? null,
    job: toJobOptions(row.job),
    nextAt: isoTimeOrNull(row.next_at),
    nextDueAt: isoTimeOrNull(row.due_at),
    waitingAt: isoTimeOrNull(row.waiting_at),
    lastFiredAt: isoTimeOrNull(row.last_fired_at),
    lastJobId: row.last_job_id,
    fired: Number(row.fired),
    skipped: Number(row.skipped),
    pause: row.paused_at && {
      note: row.pause_note,
      pausedBy: row.paused_by ?? '',
      pausedAt: isoTime(row.paused_at),
    },
    version: row.version,
    createdAt: isoTime(row.created_at),
    updatedAt: isoTime(row.updated_at),
  };
}

/** As it was given, so that the answer to `get` can be put again. */
function toJobOptions({ type, queue, complete, payload, options }: JobRow): Schedule['job'] {
  const own = { ...(queue !== undefined && { queue }), ...(complete !== undefined && { complete }) };
  return { type, payload: JSON.parse(payload) as unknown, ...own, ...options };
}

export function scheduleNotFound(name: string): DroverError {
  return new DroverError('schedule_not_found', `there is no schedule ${name}`, { name });
}
