/** What the tests of the verbs share: a database with guarded moves, and short ways to make and see jobs. */
import { type NewJob, newId } from '@drover/protocol';
import type pg from 'pg';
import { expect } from 'vitest';
import { insertJobs } from '../../src/admission/insert-jobs.js';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { type ClaimedJob, claimJobs } from '../../src/lifecycle/claim.js';
import { completeJobs } from '../../src/lifecycle/complete.js';
import type { RowToInsert } from '../../src/new-jobs/job-to-insert.js';
import { toJobToInsert } from '../../src/new-jobs/job-to-insert.js';
import { createTestDatabase } from './database.js';

export const SERVER_ID = newId();

/** A job as the API gives it, with the defaults of the tests. */
export type JobFields = Partial<NewJob> & { parentId?: string };

export type LifecycleBench = {
  db: Database;
  pool: pg.Pool;
  /** Adds jobs of type `work` (or as given) and gives their ids. */
  add(...jobs: JobFields[]): Promise<string[]>;
  /** Claims up to `count` jobs for a new session. */
  claim(count?: number, options?: { types?: string[]; queues?: string[]; sessionId?: string }): Promise<ClaimedJob[]>;
  /** Adds one job and claims it. */
  running(job?: JobFields): Promise<ClaimedJob>;
  /** Runs the jobs of this type that are ready to their end; gives their ids. */
  runAll(type: string): Promise<string[]>;
  /** Finishes a job in a transaction that is left open; gives its commit. */
  finishWithoutCommit(id: string): Promise<() => Promise<void>>;
  /** Resolves when some statement waits for an open transaction. */
  untilSomeoneWaits(): Promise<void>;
  /** The row of a job, wherever it is. */
  row(id: string): Promise<Record<string, unknown>>;
  close(): Promise<void>;
};

/** A job of type `work` (or as given) as it is inserted; with a session it is granted to that worker. */
export function rowOf({ parentId, ...fields }: JobFields, sessionId?: string): RowToInsert {
  return { job: toJobToInsert({ type: 'work', ...fields }, parentId), sessionId };
}

export async function createLifecycleBench(): Promise<LifecycleBench> {
  const database = await createTestDatabase();
  const db = connectDatabase({ url: database.url, poolSize: 4 });

  const bench: LifecycleBench = {
    db,
    pool: database.pool,
    async add(...given) {
      const rows = given.map((fields) => rowOf({ payload: { some: 'payload' }, ...fields }));
      await insertJobs(db.bulk, rows);
      return rows.map(({ job }) => job.id);
    },
    async claim(count = 1, { types = ['work'], queues, sessionId = newId() } = {}) {
      return claimJobs(db.control, [
        { types, queues: queues ?? null, slots: Array(count).fill(sessionId), ignoresPause: false },
      ]);
    },
    async running(job = {}) {
      const type = `only-${newId()}`;
      await bench.add({ type, ...job });
      const [claimed] = await bench.claim(1, { types: [job.type ?? type] });
      return claimed as ClaimedJob;
    },
    async runAll(type) {
      const jobs = await bench.claim(100, { types: [type] });
      const completions = jobs.map(({ id, fence }) => ({ id, fence, runMs: 1, result: undefined }));
      if (jobs.length > 0) await completeJobs(db.control, SERVER_ID, completions);
      return jobs.map(({ id }) => id);
    },
    async finishWithoutCommit(id) {
      const client = await database.pool.connect();
      await client.query('begin');
      await client.query(
        `with gone as (delete from drover.job where id = $1 returning *)
         insert into drover.job_history (id, created_at, run_at, finished_at, fence, attempt, max_attempts, lost_attempts,
           priority, state, queue, type, payload)
         select id, created_at, run_at, now(), fence, attempt, max_attempts, lost_attempts, priority, 'succeeded', queue, type, payload
         from gone`,
        [id],
      );
      return async () => {
        await client.query('commit');
        client.release();
      };
    },
    async untilSomeoneWaits() {
      const waiting = `select from pg_stat_activity where wait_event = 'transactionid' and datname = current_database()`;
      await expect.poll(async () => (await database.pool.query(waiting)).rowCount).toBe(1);
    },
    async row(id) {
      const { rows } = await database.pool.query(
        `select to_jsonb(j) as row from drover.job j where id = $1
         union all select to_jsonb(h) from drover.job_history h where id = $1`,
        [id],
      );
      if (rows.length !== 1) throw new Error(`expected job ${id} once, found it ${rows.length} times`);
      return rows[0].row;
    },
    async close() {
      await db.close();
      await database.drop();
    },
  };
  return bench;
}
