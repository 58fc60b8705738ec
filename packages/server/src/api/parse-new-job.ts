/**
 * The quick way to read new jobs. The schema is the truth and says what is wrong with a job; but it takes
 * 0.9 µs for a job with nothing but an id, a type and a payload and 4.7 µs for one with many options, and at
 * 80,000 jobs a second that is a third of a core. So what is right is recognised here by hand (0.25 and
 * 1.1 µs), and whatever is not is given to the schema. A property test holds the two together.
 */
import {
  type Backoff,
  backoffSchema,
  isUuid,
  LIMITS,
  type NewJob,
  nameSchema,
  newJobSchema,
  parseDuration,
  tagSchema,
} from '@drover/protocol';

type Fields = Record<string, unknown>;

/** The jobs as the schema would give them, or undefined if it would refuse one of them. */
export function parseNewJobs(items: readonly unknown[]): NewJob[] | undefined {
  const jobs = new Array<NewJob>(items.length);
  for (let index = 0; index < items.length; index++) {
    const job = parseNewJob(items[index]);
    if (job === undefined) return undefined;
    jobs[index] = job;
  }
  return jobs;
}

export function parseNewJob(item: unknown): NewJob | undefined {
  if (typeof item === 'object' && item !== null && !Array.isArray(item)) {
    const job = quickly(item as Fields);
    if (job) return job;
  }
  const parsed = newJobSchema.safeParse(item);
  return parsed.success ? parsed.data : undefined;
}

/**
 * The job if it is right beyond doubt. It is the very object that came in, with durations in milliseconds
 * and defaults filled in: JSON.parse made it and nobody else has it. To read it again changes nothing, so
 * it does no harm if the schema gets to see it after all.
 */
function quickly(fields: Fields): NewJob | undefined {
  if (!isName(fields.type)) return undefined;
  for (const key in fields) {
    const read = READERS.get(key);
    if (read === undefined) return undefined;
    if (read === AS_IT_IS) continue;
    const given = fields[key];
    const value = read(given);
    if (value === undefined) return undefined;
    if (value !== given) fields[key] = value;
  }
  return fields as NewJob;
}

type Reader = (value: unknown) => unknown;

const AS_IT_IS: Reader = (value) => value;

/** What a field becomes, or undefined if it is not right. Fields that are not here are left to the schema. */
const READERS = new Map<string, Reader>(
  Object.entries({
    type: AS_IT_IS,
    payload: AS_IT_IS,
    id: (value) => (typeof value === 'string' && isUuid(value) ? value.toLowerCase() : undefined),
    queue: (value) => (isName(value) ? value : undefined),
    priority: (value) => (isIntBetween(value, -LIMITS.priority, LIMITS.priority) ? value : undefined),
    maxAttempts: (value) => (isIntBetween(value, 1, LIMITS.maxAttempts) ? value : undefined),
    timeout: parseDuration,
    retention: parseDuration,
    delay: parseDuration,
    tags: (value) => (Array.isArray(value) && value.length <= LIMITS.tags && value.every(isTag) ? value : undefined),
    backoff: knownBackoff,
  } satisfies { [Key in keyof NewJob]?: Reader }),
);

function isIntBetween(value: unknown, low: number, high: number): boolean {
  return Number.isInteger(value) && (value as number) >= low && (value as number) <= high;
}

/** Of each kind below. */
const MAX_REMEMBERED = 1000;
const isName = rememberTexts(nameSchema);
const isTag = rememberTexts(tagSchema);

/** Types, queues and tags come again with every job: what the schema has taken once need not be asked again. */
function rememberTexts(schema: typeof nameSchema): (value: unknown) => boolean {
  const taken = new Set<string>();
  return (value) => {
    if (typeof value !== 'string') return false;
    if (taken.has(value)) return true;
    if (!schema.safeParse(value).success) return false;
    if (taken.size >= MAX_REMEMBERED) taken.clear();
    taken.add(value);
    return true;
  };
}

const backoffs = new Map<string, Backoff>();

/** With its defaults. Jobs of one type share it; nobody changes it. */
function knownBackoff(value: unknown): Backoff | undefined {
  const text = JSON.stringify(value);
  const known = backoffs.get(text);
  if (known) return known;
  const parsed = backoffSchema.safeParse(value);
  if (!parsed.success) return undefined;
  if (backoffs.size >= MAX_REMEMBERED) backoffs.clear();
  backoffs.set(text, parsed.data);
  return parsed.data;
}
