/** Schedules between the form the database keeps and the forms that the rest of the server uses. */
import type { NewSchedule, Schedule, ScheduleSpec } from '@drover/protocol';
import { writtenSpec } from '@drover/protocol';
import type { Definition } from './compiled.js';
import { describeSchedule } from './describe.js';

/** A moment as milliseconds; nominal times have no fractions of them, others are cut down. */
export const milliseconds = (column: string) => `floor(extract(epoch from ${column}) * 1000)::double precision`;

/** The present by the database's clock, without what milliseconds cannot hold. */
export const NOW = `date_trunc('milliseconds', now())`;

/** Of a next time `g` found by the rules of the parameter, for the row `s`. */
export const foundByRules = (rules: '$1' | '$2') => `zone_rules = ${rules}, next_offset_ms = g.next_offset_ms,
    rules_outdated = coalesce(s.zone_rules > ${rules}, false)`;

/** What a firing adds to a job is left out: id, expiry, occurrence. */
export function toJobRow(job: NewSchedule['job'], payloadText: string): string {
  return JSON.stringify({
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    max_attempts: job.maxAttempts,
    backoff: job.backoff,
    timeout_ms: job.timeout,
    retention_ms: job.retention,
    expires_in_ms: job.expiresIn,
    tags: job.tags?.length ? job.tags : undefined,
    payload: payloadText,
    hold_if_lost: job.onLost === 'hold' || undefined,
  });
}

type JobRow = {
  type: string;
  payload: string;
  queue?: string;
  priority?: number;
  max_attempts?: number;
  backoff?: unknown;
  timeout_ms?: number;
  retention_ms?: number;
  expires_in_ms?: number;
  tags?: string[];
  hold_if_lost?: boolean;
};

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
    nextAt: toTime(row.next_at),
    nextDueAt: toTime(row.due_at),
    waitingAt: toTime(row.waiting_at),
    lastFiredAt: toTime(row.last_fired_at),
    lastJobId: row.last_job_id,
    fired: Number(row.fired),
    skipped: Number(row.skipped),
    pause: row.paused_at && {
      note: row.pause_note,
      pausedBy: row.paused_by ?? '',
      pausedAt: row.paused_at.toISOString(),
    },
    version: row.version,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

/** As it was given, so that what `get` answers can be put again. */
function toJobOptions(row: JobRow): Schedule['job'] {
  const options = {
    type: row.type,
    payload: JSON.parse(row.payload) as unknown,
    queue: row.queue,
    priority: row.priority,
    maxAttempts: row.max_attempts,
    backoff: row.backoff,
    timeout: row.timeout_ms,
    retention: row.retention_ms,
    expiresIn: row.expires_in_ms,
    tags: row.tags,
    onLost: row.hold_if_lost ? 'hold' : undefined,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== null));
}

function toTime(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}
