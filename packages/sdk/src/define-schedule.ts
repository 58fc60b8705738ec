/**
 * A schedule, declared in code beside its job: when it fires, and the job and payload that it creates.
 * `client.schedules.put` or `client.schedules.sync` sends it to the servers.
 */
import { DroverError, invalidInput, type NewScheduleInput, nameSchema, newScheduleSchema } from '@drover/protocol';
import { JOB, type JobReference, type PayloadField } from './job-definition.js';
import { toJson } from './json.js';
import { refuse, refuseUnknownOptions } from './options.js';
import { validate } from './standard-schema.js';

/** Options of the schedule's jobs. They override those of the job type. */
export type ScheduledJobOptions = Omit<NewScheduleInput['job'], 'type' | 'payload'>;

/** All fields of a schedule except its job. */
export type ScheduleOptions = Omit<NewScheduleInput, 'job'>;

export type DefineScheduleOptions<Input> = ScheduleOptions & {
  name: string;
  /** A definition, or the name of a type that is defined elsewhere. */
  job: JobReference<Input>;
  jobOptions?: ScheduledJobOptions;
  /** The payload is checked against the schema of the job type when the schedule is put. */
} & PayloadField<Input>;

export type ScheduleDefinition = {
  readonly name: string;
  /** In the format of the API. */
  readonly schedule: NewScheduleInput;
  readonly job: JobReference;
};

const OWN_OPTIONS = ['name', 'job', 'payload', 'jobOptions'] as const;
const OPTION_NAMES = [
  ...OWN_OPTIONS,
  ...[
    'cron',
    'every',
    'anchor',
    'at',
    'specs',
    'timeZone',
    'gap',
    'repeat',
    'exclude',
    'start',
    'end',
    'spread',
    'jitter',
  ],
  ...['description', 'group', 'maxOccurrences', 'catchUp', 'catchUpWindow', 'overlap', 'pauseAfterFailures'],
];

export function defineSchedule<Input = unknown>(options: DefineScheduleOptions<Input>): ScheduleDefinition {
  refuseUnknownOptions('defineSchedule', options, OPTION_NAMES);
  const { name, job, payload, jobOptions, ...timing } = options;
  if (!nameSchema.safeParse(name).success)
    refuse('defineSchedule', 'name', name, 'a name of letters, digits and _ . : / @ -');
  toJson(payload, 'defineSchedule: payload');
  const defaults = typeof job === 'string' ? { type: job } : job[JOB].defaults;
  const schedule = { ...timing, job: { ...defaults, payload, ...jobOptions } } as NewScheduleInput;
  const parsed = newScheduleSchema.safeParse(schedule);
  if (!parsed.success) {
    const { message, details } = invalidInput(parsed.error, schedule);
    throw new DroverError('invalid_request', `defineSchedule: ${message}`, details);
  }
  return Object.freeze({ name, schedule, job });
}

/** Throws if the payload does not match the schema of the job type. */
export async function checkSchedulePayload({ name, schedule, job }: ScheduleDefinition): Promise<void> {
  if (typeof job === 'string' || job.payload === undefined) return;
  const { payload } = schedule.job;
  const field = `the payload of schedule ${name}`;
  await validate(job.payload, toJson(payload, field).value, field, payload);
}
