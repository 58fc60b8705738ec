/**
 * A schedule as users give it (`NewSchedule`) and as the API shows it (`Schedule`), and its occurrences. The schemas
 * are the source of the types. The server computes the times.
 *
 * Terms: a *spec* defines times (a cron pattern, an interval, a list of times); an *occurrence* is one such time of a
 * schedule; its *nominal* time is the time by the spec; its *due* time adds spread and jitter.
 */
import { z } from 'zod';
import { durationSchema } from './duration.js';
import { idSchema, listSchema, nameSchema, noteSchema, textSchema, timeSchema } from './fields.js';
import { jobStateSchema } from './job.js';
import { jobDefaultsShape } from './job-options.js';
import { LIMITS } from './limits.js';

const DAY_MS = 86_400_000;

/** An IANA time zone. Offsets such as `+02:00` are refused: they do not include daylight saving time. */
export const timeZoneSchema = z
  .string()
  .max(64)
  .refine(isTimeZone, 'expected an IANA time zone such as "Europe/Berlin" or "UTC"');

/** A calendar date. */
export const dateSchema = z.iso.date({ error: 'expected a date such as "2030-12-25"' });

const specFields = {
  /** Five fields, or six with seconds first, or a nickname such as `@daily`. */
  cron: textSchema(LIMITS.cronLength).min(1).optional(),
  /** An interval, counted from `anchor`. */
  every: durationSchema.optional(),
  /** The time that `every` counts from. Default: 1970-01-01T00:00:00Z. */
  anchor: timeSchema.optional(),
  /** Exact times. */
  at: z.union([timeSchema, listSchema(timeSchema, { min: 1, max: LIMITS.scheduleTimes })]).optional(),
};

type SpecFields = {
  cron?: string | undefined;
  every?: number | undefined;
  anchor?: string | undefined;
  at?: string | string[] | undefined;
};

export type ScheduleSpec =
  | { kind: 'cron'; cron: string }
  | { kind: 'interval'; every: number; anchor: string }
  | { kind: 'times'; at: string[] };

const EPOCH = '1970-01-01T00:00:00.000Z';

export const scheduleSpecSchema = z.strictObject(specFields).transform((fields, context): ScheduleSpec => {
  const spec = toSpec(fields);
  if (typeof spec !== 'string') return spec;
  context.issues.push({ code: 'custom', message: spec, input: fields });
  return z.NEVER;
});

/** The job of a schedule: its type, payload and options. */
export const scheduledJobSchema = z.strictObject({
  type: nameSchema,
  payload: z.unknown().optional(),
  /** See newJobShape. */
  complete: z.boolean().optional(),
  ...jobDefaultsShape,
  /** How long after its firing the job may still start or run. */
  expiresIn: durationSchema.optional(),
});
export type ScheduledJob = z.output<typeof scheduledJobSchema>;

/** For a time that does not exist (clocks go forward), and for one that occurs twice (clocks go back). */
export const GAP_POLICIES = ['skip', 'shift-forward', 'before'] as const;
export const REPEAT_POLICIES = ['first', 'last', 'both'] as const;
export const CATCH_UP_POLICIES = ['none', 'last', 'all'] as const;
export const OVERLAP_POLICIES = ['allow', 'skip', 'queue-one', 'cancel-previous'] as const;
export type GapPolicy = (typeof GAP_POLICIES)[number];
export type RepeatPolicy = (typeof REPEAT_POLICIES)[number];
export type CatchUpPolicy = (typeof CATCH_UP_POLICIES)[number];
export type OverlapPolicy = (typeof OVERLAP_POLICIES)[number];

const timingShape = {
  /** A single spec without a list. */
  ...specFields,
  specs: listSchema(scheduleSpecSchema, { min: 1, max: LIMITS.scheduleSpecs }).optional(),
  timeZone: timeZoneSchema.default('UTC'),
  gap: z.enum(GAP_POLICIES).default('shift-forward'),
  /** Default: `both` for cron patterns of every hour, `first` for others. */
  repeat: z.enum(REPEAT_POLICIES).optional(),
  /** Days without occurrences, in the schedule's time zone. */
  exclude: z
    .strictObject({
      dates: listSchema(dateSchema, { max: LIMITS.calendarDates }).optional(),
      calendars: listSchema(nameSchema, { max: LIMITS.scheduleCalendars }).optional(),
    })
    .optional(),
  /** No occurrence before `start` or after `end`. */
  start: timeSchema.optional(),
  end: timeSchema.optional(),
  /** Maximum of a fixed delay that is hashed from the schedule's name. */
  spread: upToADay().optional(),
  /** Maximum of a delay per occurrence that is hashed from the schedule's name and the nominal time. */
  jitter: upToADay().optional(),
};

const newScheduleShape = {
  description: noteSchema.optional(),
  /** Schedules that are defined in code share a group: see `sync` of the SDK. */
  group: nameSchema.optional(),
  ...timingShape,
  /** The schedule ends after it has created this many jobs. */
  maxOccurrences: z.int().min(1).max(LIMITS.scheduleOccurrences).optional(),
  /** What to do with missed occurrences: those that no server could fire in time. */
  catchUp: z.enum(CATCH_UP_POLICIES).default('last'),
  /** Older occurrences are not caught up. */
  catchUpWindow: durationSchema.default(DAY_MS),
  /** What to do with an occurrence while the previous one's job is unfinished. */
  overlap: z.enum(OVERLAP_POLICIES).default('allow'),
  /** The schedule pauses itself after this many failed jobs in a row. */
  pauseAfterFailures: z.int().min(1).max(LIMITS.pauseAfterFailures).optional(),
};

export const newScheduleSchema = z
  .strictObject({ ...newScheduleShape, job: scheduledJobSchema })
  .transform(withSpecs)
  .superRefine(checkTimes);

/** As sent by a client. */
export type NewScheduleInput = z.input<typeof newScheduleSchema>;
/** Parsed: one list of specs, durations in milliseconds, times in UTC, defaults filled in. */
export type NewSchedule = z.output<typeof newScheduleSchema>;
/** The part of a schedule that decides its times. */
export type ScheduleTiming = Omit<NewSchedule, 'job'>;

export const previewRequestSchema = z
  .strictObject({
    ...newScheduleShape,
    job: scheduledJobSchema.optional(),
    /** Spread and jitter are hashed from it. */
    name: nameSchema.optional(),
    count: z.int().min(1).max(LIMITS.previewOccurrences).default(10),
    after: timeSchema.optional(),
  })
  .transform(withSpecs)
  .superRefine(checkTimes);
export type PreviewRequestInput = z.input<typeof previewRequestSchema>;

export const SCHEDULE_STATES = ['active', 'paused', 'ended'] as const;
export type ScheduleState = (typeof SCHEDULE_STATES)[number];

export const scheduleSchema = z.object({
  name: z.string(),
  description: z.string().nullable(),
  group: z.string().nullable(),
  /** `ended`: there is no further occurrence. */
  state: z.enum(SCHEDULE_STATES),
  /** The specs in words. */
  text: z.string(),
  specs: z.array(
    z.union([
      z.object({ cron: z.string() }),
      z.object({ every: z.int(), anchor: z.string() }),
      z.object({ at: z.array(z.string()) }),
    ]),
  ),
  timeZone: z.string(),
  gap: z.enum(GAP_POLICIES),
  repeat: z.enum(REPEAT_POLICIES).nullable(),
  exclude: z.object({ dates: z.array(z.string()), calendars: z.array(z.string()) }),
  start: z.string().nullable(),
  end: z.string().nullable(),
  spread: z.int().nullable(),
  jitter: z.int().nullable(),
  maxOccurrences: z.int().nullable(),
  catchUp: z.enum(CATCH_UP_POLICIES),
  catchUpWindow: z.int(),
  overlap: z.enum(OVERLAP_POLICIES),
  pauseAfterFailures: z.int().nullable(),
  job: z.record(z.string(), z.unknown()),
  /** The nominal and the due time of the next occurrence; null while paused and after the end. */
  nextAt: z.string().nullable(),
  nextDueAt: z.string().nullable(),
  /** The nominal time of an occurrence that waits for the previous job. */
  waitingAt: z.string().nullable(),
  lastFiredAt: z.string().nullable(),
  lastJobId: z.string().nullable(),
  /** How many occurrences created a job, and how many did not. */
  fired: z.int(),
  skipped: z.int(),
  pause: z.object({ note: z.string().nullable(), pausedBy: z.string(), pausedAt: z.string() }).nullable(),
  /** Grows with every change of the definition or of its calendars. */
  version: z.int(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type Schedule = z.infer<typeof scheduleSchema>;

export const OCCURRENCE_STATES = ['fired', 'waiting', 'skipped'] as const;
export type OccurrenceState = (typeof OCCURRENCE_STATES)[number];
export const OCCURRENCE_KINDS = ['scheduled', 'triggered', 'backfilled'] as const;
export type OccurrenceKind = (typeof OCCURRENCE_KINDS)[number];

/** Why an occurrence created no job. */
export const SKIP_REASONS = {
  missed: 'no server could fire it in time, and the catch-up policy or its window skips it',
  overlap: 'the job of an earlier occurrence was unfinished',
  replaced: 'a later occurrence came before it could start',
  failures: 'the schedule paused itself after failures in a row',
} as const;
export type SkipReason = keyof typeof SKIP_REASONS;

export const occurrenceSchema = z.object({
  nominalAt: z.string(),
  /** More than 1 for a run of occurrences that were skipped for the same reason. */
  count: z.int(),
  /** The nominal time of the last occurrence of a run. Null for a single occurrence. */
  lastAt: z.string().nullable(),
  dueAt: z.string(),
  kind: z.enum(OCCURRENCE_KINDS),
  state: z.enum(OCCURRENCE_STATES),
  reason: z.enum(Object.keys(SKIP_REASONS) as [SkipReason, ...SkipReason[]]).nullable(),
  /** When it was fired or skipped. */
  decidedAt: z.string(),
  /** From the due time to the firing. */
  latenessMs: z.number().nullable(),
  jobId: z.string().nullable(),
  /** Null also when the job has been pruned. */
  jobState: jobStateSchema.nullable(),
});
export type Occurrence = z.infer<typeof occurrenceSchema>;

export const previewSchema = z.object({
  text: z.string(),
  timeZone: z.string(),
  gap: z.enum(GAP_POLICIES),
  /** One per spec, with its default filled in. */
  repeat: z.array(z.enum(REPEAT_POLICIES)),
  occurrences: z.array(
    z.object({
      at: z.string(),
      /** In the schedule's time zone, with its offset. */
      local: z.string(),
      dueAt: z.string(),
      /** How a clock change affected it. */
      note: z.string().nullable(),
    }),
  ),
});
export type Preview = z.infer<typeof previewSchema>;

export const newCalendarSchema = z.strictObject({
  description: noteSchema.optional(),
  dates: listSchema(dateSchema, { max: LIMITS.calendarDates }),
});
export type NewCalendarInput = z.input<typeof newCalendarSchema>;

export const calendarSchema = z.object({
  name: z.string(),
  description: z.string().nullable(),
  dates: z.array(z.string()),
  updatedAt: z.string(),
});
export type Calendar = z.infer<typeof calendarSchema>;

export const triggerSchema = z
  .strictObject({
    /** The id of the job. Repeating the call with the same id is the same job. */
    id: idSchema.optional(),
  })
  .optional();

export const backfillSchema = z.strictObject({
  from: timeSchema,
  to: timeSchema,
  /** Only count. */
  dryRun: z.boolean().default(false),
});
export type BackfillInput = z.input<typeof backfillSchema>;

export const backfilledSchema = z.object({
  /** Occurrences in the range, both ends included. */
  occurrences: z.int(),
  /** How many of them had a job already. */
  already: z.int(),
  /** How many got a job, or would get one in a dry run. */
  fired: z.int(),
  dryRun: z.boolean(),
});
export type Backfilled = z.infer<typeof backfilledSchema>;

/** A spec in the form that clients write. */
export function writtenSpec(spec: ScheduleSpec): Schedule['specs'][number] {
  if (spec.kind === 'cron') return { cron: spec.cron };
  if (spec.kind === 'interval') return { every: spec.every, anchor: spec.anchor };
  return { at: spec.at };
}

/** The spec of these fields, or the error in them. */
function toSpec({ cron, every, anchor, at }: SpecFields): ScheduleSpec | string {
  const given = [cron, every, at].filter((field) => field !== undefined).length;
  if (given !== 1) return 'expected exactly one of cron, every and at';
  if (anchor !== undefined && every === undefined) return 'expected an anchor only together with every';
  if (cron !== undefined) return { kind: 'cron', cron: cron.trim() };
  if (at !== undefined) return { kind: 'times', at: [...new Set([at].flat())].sort() };
  if ((every as number) < LIMITS.shortestIntervalMs) return 'expected an interval of at least one second';
  return { kind: 'interval', every: every as number, anchor: anchor ?? EPOCH };
}

function withSpecs<Fields extends SpecFields & { specs?: ScheduleSpec[] | undefined }>(
  { cron, every, anchor, at, specs, ...rest }: Fields,
  context: z.core.$RefinementCtx,
): Omit<Fields, keyof SpecFields | 'specs'> & { specs: ScheduleSpec[] } {
  const alone = [cron, every, anchor, at].some((field) => field !== undefined);
  const spec = alone ? toSpec({ cron, every, anchor, at }) : undefined;
  if (typeof spec === 'string' || alone === (specs !== undefined)) {
    const one = `expected one of cron, every, at and specs, ${alone ? 'got several' : 'got none'}`;
    const message = typeof spec === 'string' ? spec : one;
    context.issues.push({ code: 'custom', message, input: undefined, path: ['specs'] });
    return z.NEVER;
  }
  return { ...rest, specs: specs ?? [spec as ScheduleSpec] };
}

function checkTimes(
  timing: { start?: string | undefined; end?: string | undefined },
  context: z.core.$RefinementCtx,
): void {
  if (timing.start === undefined || timing.end === undefined || timing.start <= timing.end) return;
  context.issues.push({ code: 'custom', message: 'expected an end after the start', input: timing.end, path: ['end'] });
}

function upToADay() {
  return durationSchema.refine((ms) => ms <= DAY_MS, 'expected at most one day');
}

function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]*$/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name });
    return true;
  } catch {
    // Intl throws a RangeError for a zone that it does not know
    return false;
  }
}
