/** Firing against a real database. Time is not waited for: rows are aged. */
import { type NewScheduleInput, newId, newScheduleSchema } from '@drover/protocol';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { cancelJobs } from '../../src/lifecycle/cancel.js';
import { pruneOccurrences } from '../../src/lifecycle/prune.js';
import { backfillSchedule, triggerSchedule } from '../../src/schedules/backfill-schedule.js';
import { calendarDates, deleteCalendar, putCalendar } from '../../src/schedules/calendars.js';
import { fireDue, fireOverdue, fireWaiting, jobsToCancel } from '../../src/schedules/fire-due.js';
import { findSchedule, listOccurrences } from '../../src/schedules/list-schedules.js';
import { armSchedules } from '../../src/schedules/next-times.js';
import { deleteSchedule, pauseSchedule, putSchedule, resumeSchedule } from '../../src/schedules/put-schedule.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { writeUnguarded } from '../support/guard-moves.js';

const ALL = { index: 0, of: 1 };
let database: TestDatabase;
let db: Database;
let pool: pg.Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool;
  db = connectDatabase({ url: database.url, poolSize: 8 });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});
beforeEach(() => pool.query('truncate drover.schedule, drover.occurrence, drover.calendar, drover.job'));

const put = (name: string, input: Partial<NewScheduleInput> = {}) =>
  putSchedule(db.bulk, name, newScheduleSchema.parse({ every: '1h', job: { type: 'work' }, ...input }));
const fire = () => fireDue(db.bulk, 500, ALL);
const ledger = async (name: string) =>
  (await listOccurrences(db.reads, name, { limit: 1000 })).items.reverse().map(({ reason, state }) => reason ?? state);
const jobs = async () => (await pool.query('select * from drover.job order by created_at, id')).rows;
/** Lets the schedule have been handled until so many hours ago. */
async function age(name: string, hours: number): Promise<void> {
  await pool.query(
    `update drover.schedule set next_at = null, due_at = null, revision = revision + 1,
       handled_until = date_trunc('hour', now()) - $2 * interval '1 hour' where name = $1`,
    [name, hours],
  );
  await armSchedules(db.bulk, 10);
}
/** Makes room for the same nominal times again. */
const shiftLedger = () => pool.query(`update drover.occurrence set nominal_at = nominal_at - interval '1 day'`);
/** Ends the unfinished jobs, which no worker has ever held. */
async function end(state: 'succeeded' | 'failed'): Promise<void> {
  await writeUnguarded(
    pool,
    `with gone as (delete from drover.job returning *)
     insert into drover.job_history (id, created_at, run_at, finished_at, fence, attempt, max_attempts, lost_attempts,
       priority, state, queue, type, payload)
     select id, created_at, run_at, now(), fence, attempt, max_attempts, lost_attempts, priority, $1::drover.job_state, queue, type, payload from gone`,
    [state],
  );
}

describe('firing (J7, H5)', () => {
  it('makes one job with the options of the schedule, the ledger’s row and the next time', async () => {
    const job = {
      type: 'report',
      payload: { a: '\0' },
      queue: 'slow',
      priority: 5,
      timeout: '1m',
      retention: '3d',
      expiresIn: '2h',
      tags: ['x', '"y"'],
      backoff: { kind: 'fixed', delay: '1s' },
    } as const;
    await put('hourly', { job: { ...job, tags: [...job.tags], maxAttempts: 3, onLost: 'hold' } });
    await age('hourly', 1);
    expect(await fire()).toMatchObject({ read: 1, taken: 1, jobs: 1 });
    const [made] = await jobs();
    expect(made).toMatchObject({
      type: 'report',
      queue: 'slow',
      priority: 5,
      max_attempts: 3,
      hold_if_lost: true,
      tags: ['x', '"y"'],
      timeout_ms: '60000',
      retention_ms: '259200000',
      backoff: { kind: 'fixed', delay: 1000 },
    });
    const lanes = await pool.query(`select from drover.lane where queue = 'slow' and type = 'report'`);
    expect(lanes.rowCount).toBe(1);
    expect(made.payload).toEqual({ a: '\0' });
    expect(made.expires_at - made.created_at).toBe(7_200_000);
    const [occurrence] = (await listOccurrences(db.reads, 'hourly', { limit: 5 })).items;
    expect(occurrence).toMatchObject({ state: 'fired', kind: 'scheduled', jobId: made.id, jobState: 'ready' });
    expect(made.occurrence).toEqual({ schedule: 'hourly', nominalAt: occurrence?.nominalAt });
    const schedule = await findSchedule(db.reads, 'hourly');
    expect(Date.parse(schedule.nextAt as string)).toBe(Date.parse(occurrence?.nominalAt as string) + 3_600_000);
    expect(schedule).toMatchObject({ fired: 1, skipped: 0, state: 'active', lastJobId: made.id });
  });

  it('fires each occurrence once, however many servers try at the same moment (V2)', async () => {
    for (let index = 0; index < 40; index++) {
      await put(`s${index}`, { catchUp: 'all' });
      await age(`s${index}`, 3);
    }
    const shares = [0, 1, 2].map((index) => ({ index, of: 3 }));
    const rounds = await Promise.all([...shares, ...shares].map((share) => fireDue(db.bulk, 500, share)));
    expect(rounds.reduce((sum, { taken }) => sum + taken, 0)).toBe(40);
    expect(await jobs()).toHaveLength(120);
    const { rows } = await pool.query('select count(distinct job_id)::int as jobs from drover.occurrence');
    expect(rows[0].jobs).toBe(120);
  });

  it('leaves other servers’ schedules to them until they are late', async () => {
    await put('mine');
    const { rows } = await pool.query(
      `update drover.schedule set next_at = now() - interval '10 ms', due_at = now() - interval '10 ms' returning id::int as id`,
    );
    const theirs = { index: (rows[0].id + 1) % 2, of: 2 };
    expect((await fireDue(db.bulk, 10, theirs)).read).toBe(0);
    expect((await fireOverdue(db.bulk, 10)).read).toBe(0);
    await pool.query(`update drover.schedule set due_at = now() - interval '2 s'`);
    expect((await fireOverdue(db.bulk, 10)).taken).toBe(1);
  });

  it('a plan made from an older row changes nothing', async () => {
    await put('hourly');
    await age('hourly', 1);
    const [slow, fast] = await Promise.all([fire(), fire()]);
    expect(slow.taken + fast.taken).toBe(1);
    expect(await ledger('hourly')).toEqual(['fired']);
  });

  it('goes on from the nominal time when the database’s clock is set back', async () => {
    await put('hourly');
    await pool.query(
      `update drover.schedule set handled_until = handled_until + interval '3 hours', next_at = null, due_at = null`,
    );
    await armSchedules(db.bulk, 10);
    expect((await fire()).taken).toBe(0);
    const { nextAt } = await findSchedule(db.reads, 'hourly');
    expect(Date.parse(nextAt as string)).toBeGreaterThan(Date.now() + 2 * 3_600_000);
  });

  it('a schedule that cannot be read is paused, and the others go on', async () => {
    await put('good');
    await put('bad');
    await age('good', 1);
    await age('bad', 1);
    await pool.query(
      `update drover.schedule set definition = '{"specs":[{"kind":"cron","cron":"no"}],"timeZone":"UTC"}', version = 99 where name = 'bad'`,
    );
    const { broken, taken } = await fire();
    expect(broken.map(({ schedule }) => schedule)).toEqual(['bad']);
    expect(taken).toBe(1);
    const { rows } = await pool.query(`select pause_note from drover.schedule where name = 'bad'`);
    expect(rows[0].pause_note).toMatch('its times cannot be found: expected 5 fields');
  });
});

describe('what is due (J7)', () => {
  it('is the start of an index, however many schedules there are', async () => {
    await put('s');
    await pool.query(
      `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at)
       select 'far' || n, s.definition, s.job, now(), now() + n * interval '1 hour', now() + n * interval '1 hour'
       from drover.schedule s, generate_series(1, 20000) n`,
    );
    await pool.query('analyze drover.schedule');
    const { rows } = await pool.query<{ 'QUERY PLAN': string }>(
      `explain (analyze, buffers, costs off, timing off) select id from drover.schedule where due_at <= now() and id % 3 = 1 order by due_at limit 500`,
    );
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch('Index Scan using schedule_due');
    expect(Number(/shared hit=(\d+)/.exec(plan)?.[1] ?? 0)).toBeLessThan(20);
    const began = performance.now();
    expect((await fire()).read).toBe(0);
    expect(performance.now() - began).toBeLessThan(1000);
  });
});

describe('policies (J7)', () => {
  it.each([
    ['none', ['missed', 'missed', 'missed', 'missed']],
    ['last', ['missed', 'missed', 'missed', 'fired']],
    ['all', ['fired', 'fired', 'fired', 'fired']],
  ] as const)('after a downtime catch up on %s', async (catchUp, expected) => {
    await put('hourly', { every: '1h', anchor: new Date(Date.now() - 30 * 60_000), catchUp });
    await age('hourly', 4);
    await pool.query(
      `update drover.schedule set handled_until = now() - interval '4 hours', next_at = null, due_at = null, revision = revision + 1`,
    );
    // the anchor is half an hour ago, so the first at or after it is all there is
    await pool.query(
      `update drover.schedule set definition = jsonb_set(definition::jsonb, '{specs,0,anchor}', to_jsonb(drover.iso(now() - interval '10 days 30 minutes')))::json, version = version + 1`,
    );
    await armSchedules(db.bulk, 10);
    await fire();
    expect(await ledger('hourly')).toEqual(expected);
  });

  it('skip: while the job before is unfinished, nothing is fired; afterwards it is', async () => {
    await put('s', { overlap: 'skip', catchUp: 'all' });
    await age('s', 2);
    await fire();
    expect(await ledger('s')).toEqual(['fired', 'overlap']);
    await end('succeeded');
    await shiftLedger();
    await age('s', 1);
    await fire();
    expect(await ledger('s')).toEqual(['fired', 'overlap', 'fired']);
  });

  it('skip: a job whose lease is over and that is held as unknown does not block its schedule', async () => {
    await put('s', { overlap: 'skip' });
    await age('s', 1);
    await fire();
    const lost = `update drover.job set state = 'unknown', session_id = $1, fence = 1, attempt = 1`;
    await writeUnguarded(pool, lost, [newId()]);
    await shiftLedger();
    await age('s', 1);
    expect((await fire()).jobs).toBe(1);
  });

  it('queue-one: one waits and is fired when the job before has ended, a second is left out', async () => {
    await put('s', { overlap: 'queue-one', catchUp: 'all' });
    await age('s', 3);
    await fire();
    expect(await ledger('s')).toEqual(['fired', 'waiting', 'overlap']);
    expect((await findSchedule(db.reads, 's')).waitingAt).not.toBeNull();
    expect((await fireWaiting(db.bulk, 10)).jobs).toBe(0);
    await end('succeeded');
    expect((await fireWaiting(db.bulk, 10)).jobs).toBe(1);
    expect(await ledger('s')).toEqual(['fired', 'fired', 'overlap']);
    expect(await findSchedule(db.reads, 's')).toMatchObject({ waitingAt: null, fired: 2 });
    expect((await fireWaiting(db.bulk, 10)).jobs).toBe(0);
  });

  it('cancel-previous: the job before is cancelled, and the newest is fired when it has ended', async () => {
    await put('s', { overlap: 'cancel-previous', catchUp: 'all' });
    await age('s', 3);
    const fired = await fire();
    expect(await ledger('s')).toEqual(['fired', 'replaced', 'waiting']);
    // whoever fired it may have died before it could cancel
    const [previous] = await jobsToCancel(db.bulk, 10);
    expect(previous).toBe((await jobs())[0].id);
    expect(fired.jobs).toBe(1);
    await cancelJobs(db.bulk, newId(), [previous as string]);
    expect((await fireWaiting(db.bulk, 10)).jobs).toBe(1);
    expect(await ledger('s')).toEqual(['fired', 'replaced', 'fired']);
  });

  it('pauses itself after failures in a row, and a person’s resume starts the count anew', async () => {
    await put('s', { pauseAfterFailures: 2 });
    for (let failures = 0; failures < 2; failures++) {
      await age('s', 1);
      expect((await fire()).jobs).toBe(1);
      await end('failed');
      await shiftLedger();
    }
    await age('s', 1);
    expect((await fire()).paused).toEqual(['s']);
    expect((await ledger('s')).at(-1)).toBe('failures');
    expect(await findSchedule(db.reads, 's')).toMatchObject({
      state: 'paused',
      nextAt: null,
      pause: { note: 'the last 2 jobs of this schedule failed', pausedBy: 'drover' },
    });
    await resumeSchedule(db.bulk, 's');
    await shiftLedger();
    await age('s', 1);
    expect((await fire()).jobs).toBe(1);
  });

  it('ends after maxOccurrences and with the last moment', async () => {
    await put('max', { maxOccurrences: 2, catchUp: 'all' });
    await age('max', 5);
    await fire();
    expect(await ledger('max')).toEqual(['fired', 'fired']);
    expect(await findSchedule(db.reads, 'max')).toMatchObject({ state: 'ended', nextAt: null });
    await put('once', { every: undefined, at: new Date(Date.now() + 60_000) });
    expect((await findSchedule(db.reads, 'once')).state).toBe('active');
    await pool.query(
      `update drover.schedule set definition = jsonb_set(definition::jsonb, '{specs,0,at,0}', to_jsonb(drover.iso(now() - interval '5 s')))::json, handled_until = now() - interval '1 minute', next_at = null, due_at = null, version = 9, revision = 9 where name = 'once'`,
    );
    await armSchedules(db.bulk, 10);
    await fire();
    expect(await findSchedule(db.reads, 'once')).toMatchObject({ state: 'ended', fired: 1 });
  });
});

describe('a long downtime of an every-second schedule (J7)', () => {
  const COUNT = 86_400;

  /** Handled until so many seconds ago, and fired until there is nothing more to do. */
  async function sleepThroughADay(catchUp: 'none' | 'last'): Promise<Date> {
    await put('s', { every: '1s', catchUp });
    const { rows } = await pool.query(
      `update drover.schedule set next_at = null, due_at = null, revision = revision + 1,
         handled_until = date_trunc('second', now()) - $1 * interval '1 second'
       returning handled_until`,
      [COUNT],
    );
    await armSchedules(db.bulk, 10);
    while ((await fire()).taken > 0);
    return rows[0].handled_until;
  }

  const sums = async () =>
    (
      await pool.query(
        `select count(*)::int as rows, sum(occurrences) filter (where state = 'skipped')::int as skipped,
           count(*) filter (where state = 'fired')::int as fired from drover.occurrence`,
      )
    ).rows[0];

  it.each(['none', 'last'] as const)('with catch-up %s is a few rows, and none is forgotten', async (catchUp) => {
    const began = await sleepThroughADay(catchUp);
    const { rows, skipped, fired } = await sums();
    // those of the last minute are on time and fired
    expect(fired).toBeGreaterThanOrEqual(60);
    const schedule = (await pool.query('select handled_until, skipped::int, fired::int from drover.schedule')).rows[0];
    expect({ skipped, fired }).toEqual({ skipped: schedule.skipped, fired: schedule.fired });
    expect(skipped + fired).toBe((schedule.handled_until - began.getTime()) / 1000);
    expect(rows - fired).toBeLessThanOrEqual(110);
  });

  it('is shown as runs with their last occurrence and count, page by page', async () => {
    await sleepThroughADay('none');
    const { items, nextCursor } = await listOccurrences(db.reads, 's', { state: 'skipped', limit: 3 });
    const [latest] = items.filter(({ count }) => count > 1);
    expect(latest).toMatchObject({ state: 'skipped', reason: 'missed', jobId: null });
    const { nominalAt, lastAt, count } = latest as { nominalAt: string; lastAt: string; count: number };
    expect(Date.parse(lastAt) - Date.parse(nominalAt)).toBe((count - 1) * 1000);
    const rest = await listOccurrences(db.reads, 's', { state: 'skipped', limit: 1000, cursor: nextCursor as string });
    const all = [...items, ...rest.items];
    expect(all.reduce((sum, one) => sum + one.count, 0)).toBe((await sums()).skipped);
    expect(new Set(all.map((one) => one.nominalAt)).size).toBe(all.length);
  });

  it('is found by any time inside of a run, and a backfill fires what is in it', async () => {
    await sleepThroughADay('none');
    const [run] = (await listOccurrences(db.reads, 's', { state: 'skipped', limit: 1000 })).items.slice(-1);
    const firstMs = Date.parse(run?.nominalAt as string);
    const at = (seconds: number) => new Date(firstMs + seconds * 1000).toISOString();
    for (const [from, to] of [
      [at(0), at(0)],
      [at(500), at(510)],
    ] as const) {
      expect((await listOccurrences(db.reads, 's', { from, to, limit: 9 })).items).toEqual([run]);
    }
    const range = { from: at(0), to: at(4), dryRun: false };
    expect(await backfillSchedule(db.bulk, 's', range)).toMatchObject({ occurrences: 5, already: 0, fired: 5 });
    expect(await backfillSchedule(db.bulk, 's', range)).toMatchObject({ already: 5, fired: 0 });
    // one by one: the run and its first occurrence have the same nominal time
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listOccurrences(db.reads, 's', { from: at(0), to: at(4), limit: 1, cursor });
      seen.push(...page.items.map(({ kind, nominalAt }) => `${kind} ${nominalAt}`));
      cursor = page.nextCursor ?? undefined;
    } while (cursor);
    const backfilled = [4, 3, 2, 1, 0].map((seconds) => `backfilled ${at(seconds)}`);
    expect(seen).toEqual([...backfilled.slice(0, 4), `scheduled ${at(0)}`, ...backfilled.slice(4)]);
  });
});

describe('changing a schedule (J7)', () => {
  it('the same again changes nothing', async () => {
    expect(await put('s', { cron: '0 9 * * *', every: undefined })).toBe(true);
    const before = await findSchedule(db.reads, 's');
    expect(await put('s', { cron: '0 9 * * *', every: undefined })).toBe(false);
    expect(await findSchedule(db.reads, 's')).toEqual(before);
  });

  it('takes effect at once, loses nothing that was due, and fires nothing of the past', async () => {
    await put('s');
    await age('s', 1);
    await put('s', { every: '1m' });
    expect(await ledger('s')).toEqual(['fired']);
    const { nextAt, version } = await findSchedule(db.reads, 's');
    expect(Date.parse(nextAt as string) - Date.now()).toBeLessThanOrEqual(60_000);
    expect(version).toBe(2);
    expect((await fire()).taken).toBe(0);
  });

  it('loses nothing of one that has no next time at that moment', async () => {
    await put('s');
    await pool.query(
      `update drover.schedule set next_at = null, due_at = null, handled_until = date_trunc('hour', now()) - interval '1 hour'`,
    );
    await put('s', { every: '1m' });
    expect(await ledger('s')).toEqual(['fired']);
  });

  it('a paused one stays as it is while it is changed', async () => {
    await put('s');
    await pauseSchedule(db.bulk, 's', 'ada', undefined);
    await pool.query(`update drover.schedule set handled_until = now() - interval '5 hours'`);
    await Promise.all([put('s', { every: '1m' }), put('s', { every: '2m' }), put('s', { every: '3m' })]);
    expect(await ledger('s')).toEqual([]);
    expect((await findSchedule(db.reads, 's')).state).toBe('paused');
  });

  it('at the same moment as a firing, both happen', async () => {
    for (let round = 0; round < 5; round++) {
      await pool.query('delete from drover.occurrence');
      await put('s', { description: `round ${round}` });
      await age('s', 1);
      await Promise.all([fire(), put('s', { description: `changed ${round}` }), fire()]);
      expect(await ledger('s')).toEqual(['fired']);
      expect((await findSchedule(db.reads, 's')).description).toBe(`changed ${round}`);
    }
  });

  it('pause leaves out what falls into it, and resume goes on from now', async () => {
    await put('s');
    await pauseSchedule(db.bulk, 's', 'ada', 'holidays');
    expect(await findSchedule(db.reads, 's')).toMatchObject({
      state: 'paused',
      nextAt: null,
      pause: { note: 'holidays', pausedBy: 'ada' },
    });
    await pool.query(`update drover.schedule set handled_until = now() - interval '5 hours'`);
    expect((await fire()).read).toBe(0);
    await resumeSchedule(db.bulk, 's');
    expect((await fire()).read).toBe(0);
    expect(await findSchedule(db.reads, 's')).toMatchObject({ state: 'active', pause: null });
    expect(await ledger('s')).toEqual([]);
  });

  it('one without a next time gets it from whoever looks', async () => {
    await put('s');
    await pool.query('update drover.schedule set next_at = null, due_at = null');
    expect(await armSchedules(db.bulk, 10)).toBe(1);
    expect((await findSchedule(db.reads, 's')).nextAt).not.toBeNull();
    expect(await deleteSchedule(db.bulk, 's')).toBe(true);
    expect(await deleteSchedule(db.bulk, 's')).toBe(false);
  });

  it('refuses what never comes and calendars that do not exist', async () => {
    await expect(put('s', { cron: '0 0 30 2 *', every: undefined })).rejects.toThrow(
      'specs[0].cron: expected a date that exists',
    );
    await expect(put('s', { cron: '0 0 * *', every: undefined })).rejects.toThrow('expected 5 fields');
    await expect(put('s', { exclude: { calendars: ['none'] } })).rejects.toThrow('there is no calendar none');
    await expect(put('s', { job: { type: 'x', payload: 'x'.repeat(70_000) } })).rejects.toThrow(
      'job.payload: expected at most 65536 bytes',
    );
    await expect(findSchedule(db.reads, 's')).rejects.toThrow('there is no schedule s');
  });

  it('a changed calendar is followed at once', async () => {
    await putCalendar(db.bulk, 'holidays', 'days off', []);
    await put('s', { cron: '0 0 * * *', every: undefined, exclude: { calendars: ['holidays'] } });
    const { nextAt } = await findSchedule(db.reads, 's');
    expect(await putCalendar(db.bulk, 'holidays', 'days off', [(nextAt as string).slice(0, 10)])).toBe(1);
    await armSchedules(db.bulk, 10);
    const after = await findSchedule(db.reads, 's');
    expect(Date.parse(after.nextAt as string)).toBe(Date.parse(nextAt as string) + 86_400_000);
    await expect(deleteCalendar(db.bulk, 'holidays')).rejects.toThrow('is used by the schedule s');
    await deleteSchedule(db.bulk, 's');
    expect(await deleteCalendar(db.bulk, 'holidays')).toBe(true);
    expect(await calendarDates(db.bulk, [])).toEqual([]);
  });
});

describe('by hand (J7)', () => {
  it('a trigger fires once for an id, also of a paused schedule', async () => {
    await put('s');
    await pauseSchedule(db.bulk, 's', 'ada', undefined);
    const id = newId();
    const first = await triggerSchedule(db.bulk, 's', id);
    expect(await triggerSchedule(db.bulk, 's', id)).toBe(first);
    await Promise.all([triggerSchedule(db.bulk, 's'), triggerSchedule(db.bulk, 's')]);
    expect(await jobs()).toHaveLength(3);
    expect((await listOccurrences(db.reads, 's', { limit: 9 })).items.map(({ kind }) => kind)).toEqual(
      Array(3).fill('triggered'),
    );
    await expect(triggerSchedule(db.bulk, 'none')).rejects.toThrow('there is no schedule none');
  });

  it('a backfill counts, then fires what has no job, then nothing more', async () => {
    await put('s', { catchUp: 'last' });
    await age('s', 4);
    await fire();
    expect(await ledger('s')).toEqual(['missed', 'missed', 'missed', 'fired']);
    const range = {
      from: new Date(Date.now() - 6 * 3_600_000).toISOString(),
      to: new Date(Date.now() + 3_600_000).toISOString(),
    };
    const expected = { occurrences: 6, already: 1, fired: 5 };
    expect(await backfillSchedule(db.bulk, 's', { ...range, dryRun: true })).toEqual({ ...expected, dryRun: true });
    expect(await jobs()).toHaveLength(1);
    expect(await backfillSchedule(db.bulk, 's', { ...range, dryRun: false })).toEqual({ ...expected, dryRun: false });
    expect(await jobs()).toHaveLength(6);
    expect(await backfillSchedule(db.bulk, 's', { ...range, dryRun: false })).toMatchObject({ already: 6, fired: 0 });
    const wide = { from: '2000-01-01T00:00:00.000Z', to: '2020-01-01T00:00:00.000Z', dryRun: true };
    await expect(backfillSchedule(db.bulk, 's', wide)).rejects.toThrow('at most 10000 occurrences');
  });

  it('the ledger is read page by page and forgotten after its retention', async () => {
    await put('s', { catchUp: 'all' });
    await age('s', 5);
    await fire();
    const first = await listOccurrences(db.reads, 's', { limit: 3 });
    const second = await listOccurrences(db.reads, 's', { limit: 3, cursor: first.nextCursor as string });
    expect(first.items).toHaveLength(3);
    expect(second).toMatchObject({ nextCursor: null });
    expect(new Set([...first.items, ...second.items].map(({ nominalAt }) => nominalAt)).size).toBe(5);
    await expect(listOccurrences(db.reads, 's', { limit: 3, cursor: 'x' })).rejects.toThrow('cursor: expected');
    await pool.query(`update drover.occurrence set decided_at = now() - interval '2 days'`);
    await pruneOccurrences(db.reads, 86_400_000);
    expect(await ledger('s')).toEqual([]);
  });
});
