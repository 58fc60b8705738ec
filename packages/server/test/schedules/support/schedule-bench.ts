/** What the tests of schedules share: a database, and short ways to make, age and fire schedules. Time is not waited for. */
import { type NewScheduleInput, newScheduleSchema } from '@drover/protocol';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { connectDatabase, type Database, type Runner, type TransactionRunner } from '../../../src/db/database.js';
import { type Decisions, fireDue } from '../../../src/schedules/fire-due.js';
import { listOccurrences } from '../../../src/schedules/list-occurrences.js';
import { putSchedule } from '../../../src/schedules/put-schedule.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { writeUnguarded } from '../../support/guard-moves.js';

export type ScheduleBench = ReturnType<typeof createScheduleBench>;

/** One for a test file; its tables are emptied before each test. */
export function createScheduleBench() {
  let database: TestDatabase;
  let db: Database;

  beforeAll(async () => {
    database = await createTestDatabase();
    db = connectDatabase({ url: database.url, poolSize: 8 });
  });
  afterAll(async () => {
    await db?.close();
    await database?.drop();
  });
  beforeEach(async () => {
    await database.pool.query('truncate drover.schedule, drover.occurrence, drover.calendar, drover.job');
  });

  return {
    get db(): Database {
      return db;
    },
    get pool(): pg.Pool {
      return database.pool;
    },

    /** Every hour unless said. Gives whether that changed anything. */
    put(name: string, input: Partial<NewScheduleInput> = {}, on: TransactionRunner = db.bulk): Promise<boolean> {
      return putSchedule(on, name, newScheduleSchema.parse({ every: '1h', job: { type: 'work' }, ...input }));
    },

    fire(on: Runner = db.bulk): Promise<Decisions> {
      return fireDue(on, 500, { index: 0, of: 1 });
    },

    /** Makes the occurrences since so many full hours ago due and undecided. */
    async age(name: string, hours: number): Promise<void> {
      await database.pool.query(
        `update drover.schedule set next_at = now(), due_at = now(), revision = revision + 1,
           handled_until = date_trunc('hour', now()) - $2 * interval '1 hour' where name = $1`,
        [name, hours],
      );
    },

    /** The results of the occurrences, oldest first. */
    async ledger(name: string): Promise<string[]> {
      const { items } = await listOccurrences(db.reads, name, { limit: 1000 });
      return items.reverse().map(({ reason, state }) => reason ?? state);
    },

    /** Makes room for the same nominal times again. */
    async shiftLedger(): Promise<void> {
      await database.pool.query(`update drover.occurrence set nominal_at = nominal_at - interval '1 day'`);
    },

    async jobs() {
      return (await database.pool.query('select * from drover.job order by created_at, id')).rows;
    },

    /** Ends the unfinished jobs, which no worker has ever held. */
    async endJobs(state: 'succeeded' | 'failed'): Promise<void> {
      await writeUnguarded(
        database.pool,
        `with gone as (delete from drover.job returning *)
         insert into drover.job_history (id, created_at, run_at, finished_at, fence, attempt, max_attempts, lost_attempts,
           priority, state, queue, type, payload)
         select id, created_at, run_at, now(), fence, attempt, max_attempts, lost_attempts, priority, $1::drover.job_state, queue, type, payload from gone`,
        [state],
      );
    },
  };
}
