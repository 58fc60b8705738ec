/** Firing against a real database. Time is not waited for: rows are aged. */
import { newId } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { cancelJobs } from '../../src/lifecycle/cancel.js';
import { backfillSchedule } from '../../src/schedules/backfill-schedule.js';
import { jobsToCancel } from '../../src/schedules/due-schedules.js';
import { fireDue, fireOverdue, fireWaiting } from '../../src/schedules/fire-due.js';
import { listOccurrences } from '../../src/schedules/list-occurrences.js';
import { findSchedule } from '../../src/schedules/list-schedules.js';
import { resumeSchedule } from '../../src/schedules/pause-schedule.js';
import { writeUnguarded } from '../support/guard-moves.js';
import { createScheduleBench } from './support/schedule-bench.js';

const bench = createScheduleBench();

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
    await bench.put('hourly', { job: { ...job, tags: [...job.tags], maxAttempts: 3, onLost: 'hold' } });
    await bench.age('hourly', 1);
    expect(await bench.fire()).toMatchObject({ read: 1, taken: 1, jobs: 1 });
    const [made] = await bench.jobs();
    expect(made).toMatchObject({
      type: 'report',
      queue: 'slow',
      priority: 5,
      max_attempts: 3,
      hold_if_lost: true,
      tags: ['x', '"y"'],
      options: {
        timeout: 60_000,
        retention: 259_200_000,
        backoff: { kind: 'fixed', delay: 1000 },
      },
    });
    const lanes = await bench.pool.query(`select from drover.lane where queue = 'slow' and type = 'report'`);
    expect(lanes.rowCount).toBe(1);
    expect(made.payload).toEqual({ a: '\0' });
    expect(made.expires_at - made.created_at).toBe(7_200_000);
    const [occurrence] = (await listOccurrences(bench.db.reads, 'hourly', { limit: 5 })).items;
    expect(occurrence).toMatchObject({ state: 'fired', kind: 'scheduled', jobId: made.id, jobState: 'ready' });
    expect(made.options.occurrence).toEqual({ schedule: 'hourly', nominalAt: occurrence?.nominalAt });
    const schedule = await findSchedule(bench.db.reads, 'hourly');
    expect(Date.parse(schedule.nextAt as string)).toBe(Date.parse(occurrence?.nominalAt as string) + 3_600_000);
    expect(schedule).toMatchObject({ fired: 1, skipped: 0, state: 'active', lastJobId: made.id });
  });

  it('fires each occurrence once, however many servers try at the same time (V2)', async () => {
    for (let index = 0; index < 40; index++) {
      await bench.put(`s${index}`, { catchUp: 'all' });
      await bench.age(`s${index}`, 3);
    }
    const shares = [0, 1, 2].map((index) => ({ index, of: 3 }));
    const rounds = await Promise.all([...shares, ...shares].map((share) => fireDue(bench.db.bulk, 500, share)));
    expect(rounds.reduce((sum, { taken }) => sum + taken, 0)).toBe(40);
    expect(await bench.jobs()).toHaveLength(120);
    const { rows } = await bench.pool.query('select count(distinct job_id)::int as jobs from drover.occurrence');
    expect(rows[0].jobs).toBe(120);
  });

  it('leaves other servers’ schedules to them until they are late', async () => {
    await bench.put('mine');
    const { rows } = await bench.pool.query(
      `update drover.schedule set next_at = now() - interval '10 ms', due_at = now() - interval '10 ms' returning id::int as id`,
    );
    const theirs = { index: (rows[0].id + 1) % 2, of: 2 };
    expect((await fireDue(bench.db.bulk, 10, theirs)).read).toBe(0);
    expect((await fireOverdue(bench.db.bulk, 10)).read).toBe(0);
    await bench.pool.query(`update drover.schedule set due_at = now() - interval '2 s'`);
    expect((await fireOverdue(bench.db.bulk, 10)).taken).toBe(1);
  });

  it('a plan made from an older row changes nothing', async () => {
    await bench.put('hourly');
    await bench.age('hourly', 1);
    const [slow, fast] = await Promise.all([bench.fire(), bench.fire()]);
    expect(slow.taken + fast.taken).toBe(1);
    expect(await bench.ledger('hourly')).toEqual(['fired']);
  });

  it('continues from the nominal time when the database’s clock is set back', async () => {
    await bench.put('hourly');
    await bench.pool.query(`update drover.schedule set handled_until = handled_until + interval '3 hours'`);
    await bench.put('hourly', { description: 'changed' });
    expect((await bench.fire()).taken).toBe(0);
    const { nextAt } = await findSchedule(bench.db.reads, 'hourly');
    expect(Date.parse(nextAt as string)).toBeGreaterThan(Date.now() + 2 * 3_600_000);
  });

  it('a schedule that cannot be read is paused, and the others are fired', async () => {
    await bench.put('good');
    await bench.put('bad');
    await bench.age('good', 1);
    await bench.age('bad', 1);
    await bench.pool.query(
      `update drover.schedule set definition = '{"specs":[{"kind":"cron","cron":"no"}],"timeZone":"UTC"}', version = 99 where name = 'bad'`,
    );
    const { broken, taken } = await bench.fire();
    expect(broken.map(({ schedule }) => schedule)).toEqual(['bad']);
    expect(taken).toBe(1);
    const { rows } = await bench.pool.query(`select pause_note from drover.schedule where name = 'bad'`);
    expect(rows[0].pause_note).toMatch('its times cannot be found: expected 5 fields');
  });
});

describe('what is due (J7)', () => {
  it('is the start of an index, however many schedules there are', async () => {
    await bench.put('s');
    await bench.pool.query(
      `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at)
       select 'far' || n, s.definition, s.job, now(), now() + n * interval '1 hour', now() + n * interval '1 hour'
       from drover.schedule s, generate_series(1, 20000) n`,
    );
    await bench.pool.query('analyze drover.schedule');
    const { rows } = await bench.pool.query<{ 'QUERY PLAN': string }>(
      `explain (analyze, buffers, costs off, timing off) select id from drover.schedule where due_at <= now() and id % 3 = 1 order by due_at limit 500`,
    );
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch('Index Scan using schedule_due');
    expect(Number(/shared hit=(\d+)/.exec(plan)?.[1] ?? 0)).toBeLessThan(20);
    const began = performance.now();
    expect((await bench.fire()).read).toBe(0);
    expect(performance.now() - began).toBeLessThan(1000);
  });
});

describe('policies (J7)', () => {
  it.each([
    ['none', ['missed', 'missed', 'missed', 'missed']],
    ['last', ['missed', 'missed', 'missed', 'fired']],
    ['all', ['fired', 'fired', 'fired', 'fired']],
  ] as const)('after a downtime catch up on %s', async (catchUp, expected) => {
    await bench.put('hourly', { every: '1h', anchor: new Date(Date.now() - 30 * 60_000), catchUp });
    await bench.age('hourly', 4);
    await bench.pool.query(
      `update drover.schedule set handled_until = now() - interval '4 hours', next_at = now(), due_at = now(), revision = revision + 1`,
    );
    // the anchor is half an hour ago, so the first at or after it is all there is
    await bench.pool.query(
      `update drover.schedule set definition = jsonb_set(definition::jsonb, '{specs,0,anchor}', to_jsonb(drover.iso(now() - interval '10 days 30 minutes')))::json, version = version + 1`,
    );
    await bench.fire();
    expect(await bench.ledger('hourly')).toEqual(expected);
  });

  it('skip: while the job before is unfinished, nothing is fired; afterwards it is', async () => {
    await bench.put('s', { overlap: 'skip', catchUp: 'all' });
    await bench.age('s', 2);
    await bench.fire();
    expect(await bench.ledger('s')).toEqual(['fired', 'overlap']);
    await bench.endJobs('succeeded');
    await bench.shiftLedger();
    await bench.age('s', 1);
    await bench.fire();
    expect(await bench.ledger('s')).toEqual(['fired', 'overlap', 'fired']);
  });

  it('skip: a job whose lease is over and that is held as unknown does not block its schedule', async () => {
    await bench.put('s', { overlap: 'skip' });
    await bench.age('s', 1);
    await bench.fire();
    const lost = `update drover.job set state = 'unknown', session_id = $1, fence = 1, attempt = 1`;
    await writeUnguarded(bench.pool, lost, [newId()]);
    await bench.shiftLedger();
    await bench.age('s', 1);
    expect((await bench.fire()).jobs).toBe(1);
  });

  it('queue-one: one waits and is fired when the job before has ended, a second is left out', async () => {
    await bench.put('s', { overlap: 'queue-one', catchUp: 'all' });
    await bench.age('s', 3);
    await bench.fire();
    expect(await bench.ledger('s')).toEqual(['fired', 'waiting', 'overlap']);
    expect((await findSchedule(bench.db.reads, 's')).waitingAt).not.toBeNull();
    expect((await fireWaiting(bench.db.bulk, 10)).jobs).toBe(0);
    await bench.endJobs('succeeded');
    expect((await fireWaiting(bench.db.bulk, 10)).jobs).toBe(1);
    expect(await bench.ledger('s')).toEqual(['fired', 'fired', 'overlap']);
    expect(await findSchedule(bench.db.reads, 's')).toMatchObject({ waitingAt: null, fired: 2 });
    expect((await fireWaiting(bench.db.bulk, 10)).jobs).toBe(0);
  });

  it('cancel-previous: the job before is cancelled, and the newest is fired when it has ended', async () => {
    await bench.put('s', { overlap: 'cancel-previous', catchUp: 'all' });
    await bench.age('s', 3);
    const fired = await bench.fire();
    expect(await bench.ledger('s')).toEqual(['fired', 'replaced', 'waiting']);
    // the server that fired it may have died before it could cancel
    const [previous] = await jobsToCancel(bench.db.bulk, 10);
    expect(previous).toBe((await bench.jobs())[0].id);
    expect(fired.jobs).toBe(1);
    await cancelJobs(bench.db.bulk, newId(), [previous as string]);
    expect((await fireWaiting(bench.db.bulk, 10)).jobs).toBe(1);
    expect(await bench.ledger('s')).toEqual(['fired', 'replaced', 'fired']);
  });

  it('pauses itself after failures in a row, and a resume resets the count', async () => {
    await bench.put('s', { pauseAfterFailures: 2 });
    for (let failures = 0; failures < 2; failures++) {
      await bench.age('s', 1);
      expect((await bench.fire()).jobs).toBe(1);
      await bench.endJobs('failed');
      await bench.shiftLedger();
    }
    await bench.age('s', 1);
    expect((await bench.fire()).paused).toEqual(['s']);
    expect((await bench.ledger('s')).at(-1)).toBe('failures');
    expect(await findSchedule(bench.db.reads, 's')).toMatchObject({
      state: 'paused',
      nextAt: null,
      pause: { note: 'the last 2 jobs of this schedule failed', pausedBy: 'drover' },
    });
    await resumeSchedule(bench.db.bulk, 's');
    await bench.shiftLedger();
    await bench.age('s', 1);
    expect((await bench.fire()).jobs).toBe(1);
  });

  it('ends after maxOccurrences, and after the last of its times', async () => {
    await bench.put('max', { maxOccurrences: 2, catchUp: 'all' });
    await bench.age('max', 5);
    await bench.fire();
    expect(await bench.ledger('max')).toEqual(['fired', 'fired']);
    expect(await findSchedule(bench.db.reads, 'max')).toMatchObject({ state: 'ended', nextAt: null });
    await bench.put('once', { every: undefined, at: new Date(Date.now() + 60_000) });
    expect((await findSchedule(bench.db.reads, 'once')).state).toBe('active');
    await bench.pool.query(
      `update drover.schedule set definition = jsonb_set(definition::jsonb, '{specs,0,at,0}', to_jsonb(drover.iso(now() - interval '5 s')))::json, handled_until = now() - interval '1 minute', next_at = now(), due_at = now(), version = 9, revision = 9 where name = 'once'`,
    );
    await bench.fire();
    expect(await findSchedule(bench.db.reads, 'once')).toMatchObject({ state: 'ended', fired: 1 });
  });
});

describe('a long downtime of an every-second schedule (J7)', () => {
  const COUNT = 86_400;

  /** Handled until so many seconds ago, and fired until there is nothing more to do. */
  async function sleepThroughADay(catchUp: 'none' | 'last'): Promise<Date> {
    await bench.put('s', { every: '1s', catchUp });
    const { rows } = await bench.pool.query(
      `update drover.schedule set next_at = now(), due_at = now(), revision = revision + 1,
         handled_until = date_trunc('second', now()) - $1 * interval '1 second'
       returning handled_until`,
      [COUNT],
    );
    while ((await bench.fire()).taken > 0);
    return rows[0].handled_until;
  }

  const sums = async () =>
    (
      await bench.pool.query(
        `select count(*)::int as rows, sum(occurrences) filter (where state = 'skipped')::int as skipped,
           count(*) filter (where state = 'fired')::int as fired from drover.occurrence`,
      )
    ).rows[0];

  it.each(['none', 'last'] as const)('with catch-up %s is a few rows, and none is forgotten', async (catchUp) => {
    const began = await sleepThroughADay(catchUp);
    const { rows, skipped, fired } = await sums();
    // those of the last minute are on time and fired
    expect(fired).toBeGreaterThanOrEqual(60);
    const schedule = (await bench.pool.query('select handled_until, skipped::int, fired::int from drover.schedule'))
      .rows[0];
    expect({ skipped, fired }).toEqual({ skipped: schedule.skipped, fired: schedule.fired });
    expect(skipped + fired).toBe((schedule.handled_until - began.getTime()) / 1000);
    expect(rows - fired).toBeLessThanOrEqual(110);
  });

  it('is shown as runs with their last occurrence and count, page by page', async () => {
    await sleepThroughADay('none');
    const { items, nextCursor } = await listOccurrences(bench.db.reads, 's', { state: 'skipped', limit: 3 });
    const [latest] = items.filter(({ count }) => count > 1);
    expect(latest).toMatchObject({ state: 'skipped', reason: 'missed', jobId: null });
    const { nominalAt, lastAt, count } = latest as { nominalAt: string; lastAt: string; count: number };
    expect(Date.parse(lastAt) - Date.parse(nominalAt)).toBe((count - 1) * 1000);
    const rest = await listOccurrences(bench.db.reads, 's', {
      state: 'skipped',
      limit: 1000,
      cursor: nextCursor as string,
    });
    const all = [...items, ...rest.items];
    expect(all.reduce((sum, one) => sum + one.count, 0)).toBe((await sums()).skipped);
    expect(new Set(all.map((one) => one.nominalAt)).size).toBe(all.length);
  });

  it('is found by any time inside of a run, and a backfill fires what is in it', async () => {
    await sleepThroughADay('none');
    const [run] = (await listOccurrences(bench.db.reads, 's', { state: 'skipped', limit: 1000 })).items.slice(-1);
    const firstMs = Date.parse(run?.nominalAt as string);
    const at = (seconds: number) => new Date(firstMs + seconds * 1000).toISOString();
    for (const [from, to] of [
      [at(0), at(0)],
      [at(500), at(510)],
    ] as const) {
      expect((await listOccurrences(bench.db.reads, 's', { from, to, limit: 9 })).items).toEqual([run]);
    }
    const range = { from: at(0), to: at(4), dryRun: false };
    expect(await backfillSchedule(bench.db.bulk, 's', range)).toMatchObject({ occurrences: 5, already: 0, fired: 5 });
    expect(await backfillSchedule(bench.db.bulk, 's', range)).toMatchObject({ already: 5, fired: 0 });
    // one by one: the run and its first occurrence have the same nominal time
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listOccurrences(bench.db.reads, 's', { from: at(0), to: at(4), limit: 1, cursor });
      seen.push(...page.items.map(({ kind, nominalAt }) => `${kind} ${nominalAt}`));
      cursor = page.nextCursor ?? undefined;
    } while (cursor);
    const backfilled = [4, 3, 2, 1, 0].map((seconds) => `backfilled ${at(seconds)}`);
    expect(seen).toEqual([...backfilled.slice(0, 4), `scheduled ${at(0)}`, ...backfilled.slice(4)]);
  });
});
