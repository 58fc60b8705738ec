/** From the flags of `job add` and `job list` to what the API takes. Each flag names a field of the protocol. */
import { invalidInput, type NewJob, newJobSchema } from '@drover/protocol';
import { type Command, Option } from 'commander';
import { UsageError } from './exit-codes.js';

type JobFlag = {
  field: keyof NewJob;
  flag: string;
  description: string;
  parse?: (text: string) => unknown;
  /** The flag may be repeated. */
  isList?: boolean;
};

/** `type` and `payload` are arguments; every other field of a new job is a flag. */
export const JOB_FLAGS: readonly JobFlag[] = [
  { field: 'queue', flag: '--queue <name>', description: 'queue to add it to' },
  { field: 'priority', flag: '--priority <number>', description: 'larger numbers start first', parse: toNumber },
  {
    field: 'delay',
    flag: '--delay <duration>',
    description: 'start it no sooner than this, e.g. 30s',
    parse: toNumber,
  },
  { field: 'runAt', flag: '--run-at <time>', description: 'start it no sooner than this, e.g. 2030-01-31T12:00:00Z' },
  {
    field: 'maxAttempts',
    flag: '--max-attempts <number>',
    description: 'how often it may be tried in all',
    parse: toNumber,
  },
  {
    field: 'backoff',
    flag: '--backoff <backoff>',
    description: 'wait between attempts: fixed:5s, list:1s,10s,1m, exponential:1s, or JSON',
    parse: parseBackoff,
  },
  { field: 'timeout', flag: '--timeout <duration>', description: 'limit for one attempt', parse: toNumber },
  { field: 'expiresAt', flag: '--expires-at <time>', description: 'past this moment the job is failed' },
  {
    field: 'retention',
    flag: '--retention <duration>',
    description: 'how long to keep it when finished',
    parse: toNumber,
  },
  { field: 'tags', flag: '--tag <tag>', description: 'tag; may be repeated', isList: true },
  {
    field: 'onLost',
    flag: '--on-lost <policy>',
    description: 'when its worker is lost: rerun, or hold it for a person',
  },
  { field: 'id', flag: '--id <uuid>', description: 'id to give it; the same id again is the same job' },
];

export function addJobFlags(
  command: Command,
  flags: readonly { flag: string; description: string; isList?: boolean }[] = JOB_FLAGS,
): Command {
  for (const { flag, description, isList } of flags) {
    const option = new Option(flag, description);
    command.addOption(isList ? option.argParser(collect) : option);
  }
  return command;
}

/** For a flag that may be repeated. One that takes many values at once would swallow the arguments behind it. */
export function collect(value: string, values: string[] = []): string[] {
  return [...values, value];
}

/** Checked with the protocol's own schema, so that nothing wrong is sent. */
export function newJobFrom(type: string, payload: unknown, flags: Record<string, unknown>): NewJob {
  const job: Record<string, unknown> = { type };
  if (payload !== undefined) job.payload = payload;
  for (const { field, flag, parse } of JOB_FLAGS) {
    const given = flags[new Option(flag).attributeName()];
    if (given !== undefined) job[field] = parse && typeof given === 'string' ? parse(given) : given;
  }
  const checked = newJobSchema.safeParse(job);
  if (!checked.success) throw invalidInput(checked.error, job);
  return checked.data;
}

/** JSON, or `fixed:5s`, `list:1s,10s,1m`, `exponential:BASE,FACTOR,MAX` with what follows BASE left out at will. */
export function parseBackoff(text: string): unknown {
  if (text.trimStart().startsWith('{')) return parseJson(text, '--backoff');
  const [kind = '', rest = ''] = text.split(/:(.*)/s);
  const parts = rest === '' ? [] : rest.split(',').map((part) => toNumber(part.trim()));
  if (kind === 'fixed' && parts.length === 1) return { kind, delay: parts[0] };
  if (kind === 'list' && parts.length > 0) return { kind, delays: parts };
  if (kind === 'exponential' && parts.length <= 3) {
    const fields = { base: parts[0], factor: parts[1] === undefined ? undefined : Number(parts[1]), max: parts[2] };
    return { kind, ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) };
  }
  throw new UsageError(`--backoff: expected fixed:5s, list:1s,10s,1m, exponential:1s,2,1h or JSON, got "${text}"`);
}

export function parseJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(
      `${name}: expected JSON such as '{"name":"Ada"}' or '"text"', got ${JSON.stringify(text.slice(0, 80))}`,
    );
  }
}

/** What is no number stays as it is: the schema says what was expected. Bare numbers are milliseconds for it. */
export function toNumber(text: string): unknown {
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
