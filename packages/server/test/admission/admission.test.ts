/** What the intake does when it does not know what became of a statement: real statements, whose answers are lost. */
import { newId } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { DatabaseError } from '../../src/db/database-error.js';
import { createDispatcher } from '../../src/dispatch/dispatcher.js';
import { type AddRequest, createIntake, type Intake } from '../../src/dispatch/intake.js';
import { createEras } from '../../src/lifecycle/eras.js';
import { createMetrics } from '../../src/metrics.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

const TYPE = 'repeated';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

/** What happens after a statement has been executed, in the order in which they are sent; nothing for those that come later. */
type Aftermath = () => Promise<void> | void;

async function createRepeatingIntake(...aftermaths: Aftermath[]) {
  const logger = pino({ level: 'silent' });
  const metrics = createMetrics();
  const statements: string[] = [];
  const db: Runner = {
    ...bench.db.bulk,
    async runTexts(statement, values) {
      statements.push(statement.name);
      const aftermath = aftermaths.shift();
      const rows = await bench.db.bulk.runTexts(statement, values);
      await aftermath?.();
      return rows;
    },
  };
  const eras = createEras({ db: bench.db.bulk, onError: (error) => expect.unreachable(error.message) });
  await eras.learn();
  const dispatcher = createDispatcher({
    ...{ db: bench.db.control, serverId: SERVER_ID, logger, metrics, pollMs: 1000 },
    isPaused: () => false,
  });
  const intake = createIntake({
    ...{ db, eras, dispatcher, logger, metrics, maxPending: 100 },
    onReady() {},
    onScheduled() {},
  });
  return { intake, eras, statements };
}

const newJob = () => ({ id: newId(), type: TYPE });
const loseTheAnswer = () => {
  throw new DatabaseError('unknown', 'the connection broke');
};

const runAll = () => bench.runAll(TYPE);

/** Adds that come while the statement of another one is under way: they go together. */
async function addTogether(intake: Intake, requests: AddRequest[]) {
  const underWay = intake.enqueue({ jobs: [{ id: newId(), type: 'busy' }] });
  const answers = await Promise.allSettled(requests.map((request) => intake.enqueue(request)));
  await underWay;
  return answers;
}

test('an add whose answer is lost ends the era as it is repeated, and is one job', async () => {
  const { intake, eras, statements } = await createRepeatingIntake(() => {}, loseTheAnswer);
  await intake.enqueue({ jobs: [newJob()] }); // which notes the lane
  const era = eras.current;
  const job = newJob();
  expect(await intake.enqueue({ jobs: [job], era })).toEqual(new Set([0]));
  expect(statements).toEqual(['insert_jobs', 'insert_ready_job_in_era', 'repeat_jobs']);
  expect(eras.current).not.toBe(era);
  expect(await runAll()).toHaveLength(2);
});

test('so do adds that came together, and each is one job', async () => {
  const nothing = () => {};
  const { intake, eras, statements } = await createRepeatingIntake(nothing, nothing, loseTheAnswer);
  await intake.enqueue({ jobs: [newJob()] }); // which notes the lane
  const era = eras.current;
  const answers = await addTogether(intake, [
    { jobs: [newJob(), newJob()], era },
    { jobs: [newJob()], era },
  ]);
  expect(answers).toMatchObject([{ value: new Set([0, 1]) }, { value: new Set([0]) }]);
  expect(statements).toEqual(['insert_jobs', 'insert_jobs', 'insert_ready_jobs_in_era', 'repeat_jobs']);
  expect(eras.current).not.toBe(era);
  expect(await runAll()).toHaveLength(4);
});

test('adds of different eras that came together are looked up', async () => {
  const { intake, eras, statements } = await createRepeatingIntake();
  await intake.enqueue({ jobs: [newJob()] });
  const adds = [eras.current, undefined].map((era) => ({ jobs: [newJob(), newJob()], era }));
  await addTogether(intake, adds);
  expect(statements).toEqual(['insert_jobs', 'insert_jobs', 'insert_jobs']);
  expect(await runAll()).toHaveLength(5);
});

test('V1 jobs whose statement is repeated in vain are not taken for new ones after that', async () => {
  let finished: string[] = [];
  const { intake, eras, statements } = await createRepeatingIntake(
    () => {},
    async () => {
      finished = await runAll();
      loseTheAnswer();
    },
    () => {
      throw new DatabaseError('refused', 'canceling statement due to statement timeout');
    },
  );
  const jobs = [newJob(), newJob()];
  const era = eras.current;
  const adds = jobs.map((job) => ({ jobs: [job], era }));
  const answers = await addTogether(intake, adds);
  expect(finished).toEqual(jobs.map(({ id }) => id));
  expect(answers.map((answer) => answer.status === 'rejected' && answer.reason.code)).toEqual([
    'database_unavailable',
    'database_unavailable',
  ]);
  expect(statements).toEqual(['insert_jobs', 'insert_jobs', 'repeat_jobs']);
  expect(await runAll()).toEqual([]);
});

test('jobs that are tried alone because one of them is refused are looked up', async () => {
  const { intake, eras, statements } = await createRepeatingIntake(() => {});
  await intake.enqueue({ jobs: [newJob()] }); // which notes the lane
  const good = newJob();
  const bad = { ...newJob(), payload: 'a\u0000b', tags: ['\u0000'] };
  const adds = [good, bad].map((job) => ({ jobs: [job], era: eras.current }));
  const answers = await addTogether(intake, adds);
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
  expect(statements.slice(2)).toEqual(['insert_jobs', 'insert_ready_job', 'insert_jobs']);
  expect(await runAll()).toHaveLength(2);
});
