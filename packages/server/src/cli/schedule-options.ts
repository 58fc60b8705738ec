/**
 * Converts the flags of `schedule put` and `schedule preview` to the input of the API. Each flag names a field of the
 * protocol.
 */
import {
  CATCH_UP_POLICIES,
  GAP_POLICIES,
  invalidInput,
  JOB_OPTIONS,
  type NewScheduleInput,
  newScheduleSchema,
  OVERLAP_POLICIES,
  type PreviewRequestInput,
  previewRequestSchema,
  REPEAT_POLICIES,
} from '@drover/protocol';
import { type Command, Option } from 'commander';
import type { z } from 'zod';
import { addJobFlags, JOB_FLAGS, parseJson, toNumber } from './job-options.js';

type ScheduleFlag = {
  field: string;
  flag: string;
  description: string;
  parse?: ((text: string) => unknown) | undefined;
  isList?: boolean;
};

/** Flags for the times. */
const TIMING_FLAGS: readonly ScheduleFlag[] = [
  {
    field: 'cron',
    flag: '--cron <pattern>',
    description: 'cron pattern of 5 fields, or 6 with seconds first; @daily …',
  },
  { field: 'every', flag: '--every <duration>', description: 'interval, such as 90m', parse: toNumber },
  { field: 'anchor', flag: '--anchor <time>', description: 'time that --every counts from' },
  { field: 'at', flag: '--at <time>', description: 'exact time; may be repeated', isList: true },
  { field: 'specs', flag: '--spec <json>', description: 'one of several specs as JSON; may be repeated', isList: true },
  { field: 'timeZone', flag: '--time-zone <zone>', description: 'IANA time zone [UTC]' },
  { field: 'gap', flag: '--gap <policy>', description: `local times that do not exist: ${GAP_POLICIES.join(', ')}` },
  {
    field: 'repeat',
    flag: '--repeat <policy>',
    description: `local times that exist twice: ${REPEAT_POLICIES.join(', ')}`,
  },
  {
    field: 'dates',
    flag: '--exclude-date <date>',
    description: 'day without occurrences; may be repeated',
    isList: true,
  },
  {
    field: 'calendars',
    flag: '--exclude-calendar <name>',
    description: 'calendar of days without occurrences; may be repeated',
    isList: true,
  },
  { field: 'start', flag: '--start <time>', description: 'no occurrence before' },
  { field: 'end', flag: '--end <time>', description: 'no occurrence after' },
  {
    field: 'spread',
    flag: '--spread <duration>',
    description: 'fixed delay up to this, hashed from the name',
    parse: toNumber,
  },
  {
    field: 'jitter',
    flag: '--jitter <duration>',
    description: 'delay up to this, different for each occurrence',
    parse: toNumber,
  },
];

/** Flags for the behaviour. */
const POLICY_FLAGS: readonly ScheduleFlag[] = [
  { field: 'description', flag: '--description <text>', description: 'what it is for' },
  { field: 'group', flag: '--group <name>', description: 'group that it belongs to' },
  {
    field: 'maxOccurrences',
    flag: '--max-occurrences <number>',
    description: 'end after this many jobs',
    parse: toNumber,
  },
  { field: 'catchUp', flag: '--catch-up <policy>', description: `missed occurrences: ${CATCH_UP_POLICIES.join(', ')}` },
  {
    field: 'catchUpWindow',
    flag: '--catch-up-window <duration>',
    description: 'skip missed occurrences older than this [1d]',
    parse: toNumber,
  },
  {
    field: 'overlap',
    flag: '--overlap <policy>',
    description: `while the job before is unfinished: ${OVERLAP_POLICIES.join(', ')}`,
  },
  {
    field: 'pauseAfterFailures',
    flag: '--pause-after-failures <number>',
    description: 'pause when this many jobs in a row failed',
    parse: toNumber,
  },
];

const OPTIONS_OF_JOBS: readonly ScheduleFlag[] = [
  // the other options concern a single job
  ...JOB_FLAGS.filter(({ field }) => JOB_OPTIONS[field].isDefault),
  {
    field: 'expiresIn',
    flag: '--expires-in <duration>',
    description: 'time after its firing in which a job may run',
    parse: toNumber,
  },
];

export function addTimingFlags(command: Command): Command {
  return addJobFlags(command, TIMING_FLAGS);
}

export function addScheduleFlags(command: Command): Command {
  return addJobFlags(command, [...TIMING_FLAGS, ...POLICY_FLAGS, ...OPTIONS_OF_JOBS]);
}

/** Checked with the protocol's own schema, so that nothing invalid is sent. Sent as given. */
export function scheduleFrom(type: string, payload: unknown, flags: Record<string, unknown>): NewScheduleInput {
  const job = { type, ...(payload !== undefined && { payload }), ...valuesOf(OPTIONS_OF_JOBS, flags) };
  return checked(newScheduleSchema, { ...timingOf(flags), ...valuesOf(POLICY_FLAGS, flags), job });
}

export function previewFrom(flags: Record<string, unknown>, more: Record<string, unknown>): PreviewRequestInput {
  return checked(previewRequestSchema, { ...timingOf(flags), ...more });
}

function checked<Schema extends z.ZodType>(schema: Schema, given: Record<string, unknown>): z.input<Schema> {
  const parsed = schema.safeParse(given);
  if (!parsed.success) throw invalidInput(parsed.error, given);
  return given as z.input<Schema>;
}

function timingOf(flags: Record<string, unknown>): Record<string, unknown> {
  const { dates, calendars, specs, ...timing } = valuesOf(TIMING_FLAGS, flags);
  return {
    ...timing,
    ...(specs !== undefined && { specs: (specs as string[]).map((spec) => parseJson(spec, '--spec')) }),
    ...((dates ?? calendars) !== undefined && {
      exclude: { ...(dates !== undefined && { dates }), ...(calendars !== undefined && { calendars }) },
    }),
  };
}

function valuesOf(list: readonly ScheduleFlag[], flags: Record<string, unknown>): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const { field, flag, parse } of list) {
    const given = flags[new Option(flag).attributeName()];
    if (given !== undefined) values[field] = parse && typeof given === 'string' ? parse(given) : given;
  }
  return values;
}
