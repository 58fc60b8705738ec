/** Converts the flags of `job add` and `job list` to the input of the API. */
import { readFile } from 'node:fs/promises';
import {
  invalidInput,
  JOB_OPTION_NAMES,
  JOB_OPTIONS,
  type JobOptionName,
  type NewJob,
  newJobSchema,
} from '@drover/protocol';
import { type Command, Option } from 'commander';
import { jsonProblem } from '../base/json-problem.js';
import { systemProblem } from '../base/system-problem.js';
import { UsageError } from './exit-codes.js';

type JobFlag = {
  field: JobOptionName;
  flag: string;
  description: string;
  parse?: ((text: string) => unknown) | undefined;
  /** The flag may be repeated. */
  isList?: boolean;
};

const PARSERS = { text: undefined, list: undefined, number: toNumber, duration: toNumber, backoff: parseBackoff };

/** `type` and `payload` are arguments; every option of a job is a flag. */
export const JOB_FLAGS: readonly JobFlag[] = JOB_OPTION_NAMES.map((field) => {
  const { flag, kind, meaning } = JOB_OPTIONS[field];
  return { field, flag, description: meaning, parse: PARSERS[kind], isList: kind === 'list' };
});

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

/** For a flag that may be repeated. A flag that takes several values at once would swallow the arguments after it. */
export function collect(value: string, values: string[] = []): string[] {
  return [...values, value];
}

/** Checked with the protocol's own schema, so that nothing invalid is sent. */
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

/** JSON, or `fixed:5s`, `list:1s,10s,1m`, `exponential:BASE,FACTOR,MAX`; everything after BASE is optional. */
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

/** `flag` names the file. */
export async function readJsonFile(path: string, flag: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new UsageError(`${flag}: cannot read ${path}: ${systemProblem(error)}`);
  });
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`${flag}: ${path} is not valid JSON: ${jsonProblem(text)}`);
  }
}

/** Text that is not a number is returned unchanged: the schema reports the error. Bare numbers are milliseconds. */
export function toNumber(text: string): unknown {
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
