/** What admission makes of statements that fail, or whose answers are lost: real statements on a real database. */
import { type DroverError, newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Admission, createAdmission } from '../../src/admission/admission.js';
import type { Runner } from '../../src/db/database.js';
import { DatabaseError } from '../../src/db/database-error.js';
import { createDispatcher } from '../../src/dispatch/dispatcher.js';
import type { JobToInsert } from '../../src/new-jobs/job-to-insert.js';
import { createMetrics } from '../../src/telemetry/metrics.js';
import { createLifecycleBench, type JobFields, type LifecycleBench, rowOf, SERVER_ID } from '../support/lifecycle.js';

const TYPE = 'admitted';
const MAX_PENDING = 100;
/** Waits for the standby, when what the first try added may stand on the primary alone. */
const BARRIER = 'replication_barrier';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

/** What happens after a statement has been executed, in the order in which they are sent; nothing for those that come later. */
type Aftermath = () => Promise<void> | void;

function createBrokenAdmission(...aftermaths: Aftermath[]) {
  const logger = pino({ level: 'silent' });
  const metrics = createMetrics();
  const statements: string[] = [];
  async function followed<Result>(name: string, statement: () => Promise<Result>): Promise<Result> {
    statements.push(name);
    const aftermath = aftermaths.shift();
    const result = await statement();
    await aftermath?.();
    return result;
  }
  const { bulk } = bench.db;
  const db: Runner = {
    ...bulk,
    runTexts: (statement, values) => followed(statement.name, () => bulk.runTexts(statement, values)),
    copyIn: (text, data) => followed('copy', () => bulk.copyIn(text, data)),
  };
  const sessions = new Map();
  const dispatcher = createDispatcher({
    ...{ db: bench.db.control, serverId: SERVER_ID, logger, metrics, pollMs: 1000 },
    ...{ sessions, isPaused: () => false },
    publish() {},
  });
  const admission = createAdmission({
    ...{ db, dispatcher, sessions, logger, metrics, maxPending: MAX_PENDING, auditEnqueues: false },
    onReady() {},
    onScheduled() {},
  });
  return { admission, statements };
}

const jobOf = (fields: JobFields = {}): JobToInsert => rowOf({ type: TYPE, ...fields }).job;
const jobsOf = (count: number) => Array.from({ length: count }, () => jobOf());
const withPayload = (payload: string): JobToInsert => ({ ...jobOf(), payload });
const loseTheAnswer = () => {
  throw new DatabaseError('unknown', 'the connection broke');
};
const nothing = () => {};

const runAll = () => bench.runAll(TYPE);

/** Requests that come in one turn of the event loop share a statement. */
function addTogether(admission: Admission, requests: (readonly JobToInsert[])[]) {
  return Promise.allSettled(requests.map((jobs) => admission.enqueue(jobs)));
}

function errorsOf(answers: PromiseSettledResult<unknown>[]): (DroverError | undefined)[] {
  return answers.map((answer) => (answer.status === 'rejected' ? (answer.reason as DroverError) : undefined));
}

describe('a statement whose answer is lost', () => {
  test('is repeated, and its job is one job', async () => {
    const { admission, statements } = createBrokenAdmission(loseTheAnswer);
    expect(await admission.enqueue([jobOf()])).toEqual(new Set([0]));
    expect(statements).toEqual(['insert_jobs', 'insert_jobs', BARRIER]);
    expect(await runAll()).toHaveLength(1);
  });

  test('is repeated for requests that came together, and each of their jobs is one job', async () => {
    const { admission, statements } = createBrokenAdmission(loseTheAnswer);
    const answers = await addTogether(admission, [jobsOf(2), jobsOf(1)]);
    expect(answers).toMatchObject([{ value: new Set([0, 1]) }, { value: new Set([0]) }]);
    expect(statements).toEqual(['insert_jobs', 'insert_jobs', BARRIER]);
    expect(await runAll()).toHaveLength(3);
  });

  test('is repeated by the function if it was a COPY, and each of its jobs is one job', async () => {
    const { admission, statements } = createBrokenAdmission(loseTheAnswer);
    expect((await admission.enqueue(jobsOf(50))).size).toBe(50);
    expect(statements).toEqual(['copy', 'insert_jobs', BARRIER]);
    expect(await runAll()).toHaveLength(50);
  });

  test('and which added nothing is repeated until the standby has its job', async () => {
    const { admission, statements } = createBrokenAdmission(loseTheAnswer, nothing, loseTheAnswer);
    expect(await admission.enqueue([jobOf()])).toEqual(new Set([0]));
    expect(statements).toEqual(['insert_jobs', 'insert_jobs', BARRIER, 'insert_jobs', BARRIER]);
    expect(await runAll()).toHaveLength(1);
  });

  test('V1 is repeated after its job has finished: the job stays finished', async () => {
    const { admission } = createBrokenAdmission(async () => {
      expect(await runAll()).toHaveLength(2);
      loseTheAnswer();
    });
    expect(await admission.enqueue(jobsOf(2))).toEqual(new Set([0, 1]));
    expect(await runAll()).toEqual([]);
  });

  test('V1 and then is refused: the outcome is not known, and the jobs that it added stay', async () => {
    let finished: string[] = [];
    const { admission, statements } = createBrokenAdmission(
      async () => {
        finished = await runAll();
        loseTheAnswer();
      },
      () => {
        throw new DatabaseError('refused', 'canceling statement due to statement timeout');
      },
    );
    const jobs = jobsOf(2);
    const answers = await addTogether(
      admission,
      jobs.map((job) => [job]),
    );
    expect(finished).toEqual(jobs.map(({ id }) => id));
    expect(errorsOf(answers).map((error) => error?.code)).toEqual(['database_unavailable', 'database_unavailable']);
    expect(statements).toEqual(['insert_jobs', 'insert_jobs']);
    expect(await runAll()).toEqual([]);
  });

  test('each time: the request is told so after the last try, without what the database said', async () => {
    const { admission, statements } = createBrokenAdmission(...Array(10).fill(loseTheAnswer));
    await expect(admission.enqueue([jobOf()])).rejects.toMatchObject({
      code: 'database_unavailable',
      message: 'the database did not confirm the jobs',
    });
    expect(statements).toHaveLength(4);
    expect(await runAll()).toHaveLength(1);
  });
});

describe('a request that the database refuses', () => {
  const BAD = /^jobs\[0\]\.payload: not valid JSON/;

  test.each([['1,2'], ['1 2'], ['not json'], ['{"a":'], ['"a']])(
    'among 64, for the payload %j, fails alone: the others are added',
    async (payload) => {
      const { admission } = createBrokenAdmission();
      const requests = Array.from({ length: 64 }, (_, index) => [index === 40 ? withPayload(payload) : jobOf()]);
      const errors = errorsOf(await addTogether(admission, requests));
      expect(errors.flatMap((error, index) => (error ? [index] : []))).toEqual([40]);
      expect(errors[40]).toMatchObject({
        code: 'invalid_request',
        message: expect.stringMatching(BAD),
        details: { issues: [{ field: 'jobs[0].payload', message: expect.stringMatching(/^not valid JSON: /) }] },
      });
      expect(await runAll()).toHaveLength(63);
    },
  );

  test('several among many fail, each with its own reason', async () => {
    const { admission } = createBrokenAdmission();
    const requests = Array.from({ length: 20 }, (_, index) =>
      index % 7 === 0 ? [jobOf(), withPayload('{')] : jobsOf(2),
    );
    const errors = errorsOf(await addTogether(admission, requests));
    expect(errors.flatMap((error, index) => (error ? [index] : []))).toEqual([0, 7, 14]);
    expect(errors[7]?.message).toMatch(/^jobs\[1\]\.payload: not valid JSON/);
    expect(await runAll()).toHaveLength(34);
  });

  test.each([
    ['few', 3],
    ['many, which are copied', 50],
  ])('of %s jobs names the places at fault, and adds none', async (_, count) => {
    const { admission } = createBrokenAdmission();
    const refused = admission.enqueue([...jobsOf(count), withPayload('1,2'), jobOf(), withPayload('nope')]);
    const places = [count, count + 2].map((place) => `jobs[${place}].payload`);
    await expect(refused).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(`; ${places[1]}: not valid JSON: `),
      details: { issues: places.map((field) => ({ field })) },
    });
    expect(await runAll()).toEqual([]);
  });

  test('names at most 20 places', async () => {
    const { admission } = createBrokenAdmission();
    const refused = admission.enqueue(Array.from({ length: 50 }, () => withPayload('x')));
    const error = (await refused.catch((reason: unknown) => reason)) as DroverError;
    expect((error.details as { issues: unknown[] }).issues).toHaveLength(20);
  });

  test('for something else than a payload is told what the database said', async () => {
    const { admission } = createBrokenAdmission();
    const answers = await addTogether(admission, [[jobOf()], [jobOf({ tags: ['\u0000'] })]]);
    const [, error] = errorsOf(answers);
    expect(error).toMatchObject({ code: 'invalid_request', message: expect.stringMatching(/^the database refused/) });
    expect(await runAll()).toHaveLength(1);
  });

  test('after its first copy has been added is the same job all the same', async () => {
    const { admission } = createBrokenAdmission();
    const job = jobOf();
    await admission.enqueue([job]);
    const answers = await addTogether(admission, [[job], [withPayload('x')], [job, jobOf()]]);
    expect(answers[0]).toMatchObject({ value: new Set([0]) });
    expect(answers[2]).toMatchObject({ value: new Set([0]) });
    expect(await runAll()).toHaveLength(2);
  });
});

test('large requests do not share a statement, however few their jobs are', async () => {
  const firsts = [held(), held()];
  const { admission, statements } = createBrokenAdmission(...firsts.map(({ wait }) => wait));
  const large = () => admission.enqueue([withPayload(JSON.stringify('x'.repeat(9 * 1024 * 1024)))]);
  const added: Promise<unknown>[] = [];
  for (const count of [1, 2]) {
    added.push(admission.enqueue(jobsOf(1)));
    await expect.poll(() => statements.length).toBe(count);
  }
  // they wait until both statements have ended
  added.push(large(), large(), admission.enqueue(jobsOf(1)));
  expect(admission.pending).toBe(5);
  for (const { end } of firsts) end();
  await Promise.all(added);
  expect(statements).toHaveLength(4);
  expect(admission.pending).toBe(0);
  expect(await runAll()).toHaveLength(5);
});

function held() {
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { wait: () => ended, end };
}

test('the same id in several requests of one statement was added by the first of them', async () => {
  const { admission, statements } = createBrokenAdmission();
  const job = jobOf();
  const answers = await addTogether(admission, [[jobOf(), job], [job], [job, jobOf()]]);
  expect(answers).toMatchObject([{ value: new Set() }, { value: new Set([0]) }, { value: new Set([0]) }]);
  expect(statements).toEqual(['insert_jobs']);
  expect(await runAll()).toHaveLength(3);
});

describe('a request that comes', () => {
  test('beyond what may wait is refused before anything is sent, unless nothing waits', async () => {
    const { admission, statements } = createBrokenAdmission();
    const first = admission.enqueue(jobsOf(MAX_PENDING + 1));
    expect(admission.pending).toBe(MAX_PENDING + 1);
    await expect(admission.enqueue([jobOf()])).rejects.toMatchObject({ code: 'overloaded' });
    expect(await first).toEqual(new Set());
    expect(statements).toHaveLength(1);
    expect(await admission.enqueue([])).toEqual(new Set());
    for (let ran = MAX_PENDING + 1; ran > 0; ) ran -= (await runAll()).length;
  });

  test('to a stopping server is refused, and those before it are answered', async () => {
    const { admission } = createBrokenAdmission();
    const id = newId();
    const before = admission.enqueue([jobOf({ id })]);
    const stopped = admission.stop();
    await expect(admission.enqueue([jobOf()])).rejects.toMatchObject({ code: 'shutting_down' });
    await stopped;
    expect(admission.pending).toBe(0);
    expect(await before).toEqual(new Set());
    expect(await runAll()).toEqual([id]);
  });
});
