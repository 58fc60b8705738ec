/**
 * The quick way to read a batch of new jobs: without reading their payloads. It takes a body in which every job has a line of
 * its own and begins with its id and ends with its payload, as our SDK writes it:
 *
 * ```
 * {"jobs":[
 * {"id":"0198…","type":"email.send","payload":{"to":"a@example.com"}},
 * {"id":"0198…","type":"email.send","payload":{"to":"b@example.com"}}
 * ],"answer":"existing"}
 * ```
 * Any other body is left to JSON.parse, and so is one of this form if a payload turns out not to be JSON (UnreadableJson).
 * A job that comes alone is such a line by itself.
 *
 * Why that means the same: strings in JSON hold no line break, so if the head of each line is an object and its payload is a
 * value, by themselves, then each line is a job and the whole is the batch. Whatever else a line may be, `"payload":1,"queue":"q"`
 * for one, leaves a payload that is no JSON.
 */
import { LIMITS, type NewJob } from '@drover/protocol';
import { UnreadJson } from '../lifecycle/unread-json.js';
import { parseNewJob } from './parse-new-job.js';

const START = '{"jobs":[\n';
const END = '\n]}';
const END_WITH_ANSWER = '\n],"answer":"existing"}';
const ID_START = '{"id":"';
const UUID_LENGTH = 36;
const ID_END = '",';
const PAYLOAD = ',"payload":';
/** What JSON allows between its parts, or not at all, and the way of the text into the database would have to escape. */
const RARE = ['\t', '\r', '\0'];

export type Batch = { jobs: NewJob[]; answer?: 'existing' | undefined };

/** What stands between the id of a job and its payload, as it is written and as it is meant. */
type Head = { text: string; type: string; rest: NewJob | undefined };

/** Undefined if the text is not of this form, or not beyond doubt right. */
export function readBatchLines(text: string): Batch | undefined {
  if (!text.startsWith(START)) return undefined;
  const hasAnswer = text.endsWith(END_WITH_ANSWER);
  if (!hasAnswer && !text.endsWith(END)) return undefined;
  if (RARE.some((character) => text.includes(character))) return undefined;
  const end = text.length - (hasAnswer ? END_WITH_ANSWER : END).length;
  const jobs = readLines(text, START.length, end);
  if (jobs === undefined || jobs.length === 0) return undefined;
  // jobs are alike: if this payload is not alone in its place, the others are not either
  if (!((jobs[0] as NewJob).payload as UnreadJson).isJson()) return undefined;
  copyIds(jobs);
  return hasAnswer ? { jobs, answer: 'existing' } : { jobs };
}

/** Undefined if the text is not of this form, or not beyond doubt right. */
export function readJobLine(text: string): NewJob | undefined {
  if (RARE.some((character) => text.includes(character))) return undefined;
  const jobs = readLines(text, 0, text.length);
  if (jobs?.length !== 1) return undefined;
  if (text.length > MAX_KEPT_LENGTH) copyIds(jobs);
  return jobs[0];
}

/** There is a line break, or the end of the text, at `end`. */
function readLines(text: string, start: number, end: number): NewJob[] | undefined {
  const jobs: NewJob[] = [];
  let head = lastHead;
  let from = start;
  while (from < end) {
    const nextBreak = text.indexOf('\n', from);
    const lineEnd = nextBreak < 0 ? end : nextBreak;
    const jobEnd = lineEnd === end ? end : lineEnd - 1;
    const idFrom = from + ID_START.length;
    const headFrom = idFrom + UUID_LENGTH;
    if (!text.startsWith(ID_START, from) || !isUuidAt(text, idFrom)) return undefined;
    if (text[jobEnd - 1] !== '}' || (lineEnd !== end && text[jobEnd] !== ',')) return undefined;
    // jobs are of a few kinds, and mostly of the one before
    if (head === undefined || !text.startsWith(head.text, headFrom)) {
      head = knownHead(text.slice(headFrom, jobEnd));
      if (head === undefined) return undefined;
    }
    const id = text.slice(idFrom, headFrom);
    const payload = new UnreadJson(text.slice(headFrom + head.text.length, jobEnd - 1));
    jobs.push(head.rest ? { ...head.rest, id, payload } : { id, type: head.type, payload });
    if (jobs.length > LIMITS.batchJobs) return undefined;
    from = lineEnd + 1;
  }
  lastHead = head;
  // before the end, a line break after the last job and its comma is one too many
  return from === end + 1 ? jobs : undefined;
}

const ZERO = '0'.charCodeAt(0);
const NINE = '9'.charCodeAt(0);
const LOWER_A = 'a'.charCodeAt(0);
const LOWER_F = 'f'.charCodeAt(0);
const HYPHEN = '-'.charCodeAt(0);

/** In lower case, as ids are kept. */
function isUuidAt(text: string, from: number): boolean {
  for (let place = 0; place < UUID_LENGTH; place++) {
    const code = text.charCodeAt(from + place);
    const isHyphen = place === 8 || place === 13 || place === 18 || place === 23;
    const isDigit = (code >= ZERO && code <= NINE) || (code >= LOWER_A && code <= LOWER_F);
    if (isHyphen ? code !== HYPHEN : !isDigit) return false;
  }
  return true;
}

/** Ids live as long as their jobs run, and as parts of the text they would keep all of it in memory: so much is no matter. */
const MAX_KEPT_LENGTH = 500;

function copyIds(jobs: readonly NewJob[]): void {
  const ids = JSON.parse(`["${jobs.map(({ id }) => id).join('","')}"]`) as string[];
  for (let index = 0; index < jobs.length; index++) (jobs[index] as NewJob).id = ids[index];
}

let lastHead: Head | undefined;
const MAX_REMEMBERED = 1000;
const MAX_REMEMBERED_LENGTH = 500;
const heads = new Map<string, Head>();

/** The head at the start of a line that lacks its id. */
function knownHead(line: string): Head | undefined {
  const end = line.indexOf(PAYLOAD, ID_END.length);
  if (end < 0 || !line.startsWith(ID_END)) return undefined;
  const text = line.slice(0, end + PAYLOAD.length);
  const known = heads.get(text);
  if (known) return known;
  // a copy: as a part of the body it would keep all of that in memory
  const head = readHead(Buffer.from(text).toString());
  if (head === undefined || text.length > MAX_REMEMBERED_LENGTH) return head;
  if (heads.size >= MAX_REMEMBERED) heads.clear();
  heads.set(head.text, head);
  return head;
}

function readHead(text: string): Head | undefined {
  let fields: object;
  try {
    fields = JSON.parse(`{${text.slice(ID_END.length, -PAYLOAD.length)}}`) as object;
  } catch {
    return undefined;
  }
  if ('id' in fields || 'payload' in fields) return undefined;
  const job = parseNewJob(fields);
  return job && { text, type: job.type, rest: Object.keys(job).length > 1 ? job : undefined };
}
