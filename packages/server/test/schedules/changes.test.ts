/** Puts, pauses and calendars on a quiet database; change-faults.test.ts is about what may come in between. */
import { describe, expect, it } from 'vitest';
import { deleteCalendar, putCalendar } from '../../src/schedules/calendars.js';
import { findSchedule } from '../../src/schedules/list-schedules.js';
import { pauseSchedule, resumeSchedule } from '../../src/schedules/pause-schedule.js';
import { deleteSchedule } from '../../src/schedules/put-schedule.js';
import { createScheduleBench } from './support/schedule-bench.js';

const bench = createScheduleBench();

describe('changing a schedule (J7)', () => {
  it('the same again changes nothing', async () => {
    expect(await bench.put('s', { cron: '0 9 * * *', every: undefined })).toBe(true);
    const before = await findSchedule(bench.db.reads, 's');
    expect(await bench.put('s', { cron: '0 9 * * *', every: undefined })).toBe(false);
    expect(await findSchedule(bench.db.reads, 's')).toEqual(before);
  });

  it('takes effect at once, loses nothing that was due, and fires nothing of the past', async () => {
    await bench.put('s');
    await bench.age('s', 1);
    await bench.put('s', { every: '1m' });
    expect(await bench.ledger('s')).toEqual(['fired']);
    const { nextAt, version } = await findSchedule(bench.db.reads, 's');
    expect(Date.parse(nextAt as string) - Date.now()).toBeLessThanOrEqual(60_000);
    expect(version).toBe(2);
    expect((await bench.fire()).taken).toBe(0);
  });

  it('decides everything that is due, in as many rounds as that takes', async () => {
    await bench.put('s', { every: '1s', catchUp: 'all', catchUpWindow: '1d' });
    await bench.pool.query(
      `update drover.schedule set next_at = now(), due_at = now() + interval '1 hour', revision = revision + 1,
         handled_until = date_trunc('second', now()) - interval '2500 seconds'`,
    );
    await bench.put('s', { every: '1h' });
    const { rows } = await bench.pool.query(
      `select count(*)::int as fired from drover.occurrence where state = 'fired'`,
    );
    expect(rows[0].fired).toBeGreaterThanOrEqual(2500);
    expect((await findSchedule(bench.db.reads, 's')).fired).toBe(rows[0].fired);
  });

  it('a paused one stays as it is while it is changed', async () => {
    await bench.put('s');
    await pauseSchedule(bench.db.bulk, 's', 'ada', undefined);
    await bench.pool.query(`update drover.schedule set handled_until = now() - interval '5 hours'`);
    await Promise.all([
      bench.put('s', { every: '1m' }),
      bench.put('s', { every: '2m' }),
      bench.put('s', { every: '3m' }),
    ]);
    expect(await bench.ledger('s')).toEqual([]);
    expect((await findSchedule(bench.db.reads, 's')).state).toBe('paused');
  });

  it('at the same time as a firing, both happen', async () => {
    for (let round = 0; round < 5; round++) {
      await bench.pool.query('delete from drover.occurrence');
      await bench.put('s', { description: `round ${round}` });
      await bench.age('s', 1);
      await Promise.all([bench.fire(), bench.put('s', { description: `changed ${round}` }), bench.fire()]);
      expect(await bench.ledger('s')).toEqual(['fired']);
      expect((await findSchedule(bench.db.reads, 's')).description).toBe(`changed ${round}`);
    }
  });

  it('pause leaves out what falls into it, and resume counts from now', async () => {
    await bench.put('s');
    await pauseSchedule(bench.db.bulk, 's', 'ada', 'holidays');
    expect(await findSchedule(bench.db.reads, 's')).toMatchObject({
      state: 'paused',
      nextAt: null,
      pause: { note: 'holidays', pausedBy: 'ada' },
    });
    await bench.pool.query(`update drover.schedule set handled_until = now() - interval '5 hours'`);
    expect((await bench.fire()).read).toBe(0);
    await resumeSchedule(bench.db.bulk, 's');
    expect((await bench.fire()).read).toBe(0);
    expect(await findSchedule(bench.db.reads, 's')).toMatchObject({ state: 'active', pause: null });
    expect(await bench.ledger('s')).toEqual([]);
  });

  it('a deleted schedule is gone, and deleting it again says so', async () => {
    await bench.put('s');
    expect(await deleteSchedule(bench.db.bulk, 's')).toBe(true);
    expect(await deleteSchedule(bench.db.bulk, 's')).toBe(false);
  });

  it('resuming a schedule that cannot be read leaves it paused and says why', async () => {
    await bench.put('s');
    await pauseSchedule(bench.db.bulk, 's', 'ada', undefined);
    await bench.pool.query(
      `update drover.schedule set definition = '{"specs":[{"kind":"cron","cron":"no"}],"timeZone":"UTC"}'`,
    );
    await resumeSchedule(bench.db.bulk, 's');
    const { rows } = await bench.pool.query('select paused_by, pause_note from drover.schedule');
    expect(rows[0]).toMatchObject({
      paused_by: 'drover',
      pause_note: 'its times cannot be found: expected 5 fields, or 6 with seconds first, got 1',
    });
  });

  it('a schedule that has ended begins again when it is changed, paused or not', async () => {
    for (const isPaused of [false, true]) {
      await bench.put('s', { maxOccurrences: 1 });
      await bench.age('s', 1);
      await bench.fire();
      await bench.shiftLedger();
      expect((await findSchedule(bench.db.reads, 's')).state).toBe('ended');
      if (isPaused) await pauseSchedule(bench.db.bulk, 's', 'ada', undefined);
      await bench.put('s', { maxOccurrences: 5 });
      expect((await findSchedule(bench.db.reads, 's')).state).toBe(isPaused ? 'paused' : 'active');
      if (isPaused) await resumeSchedule(bench.db.bulk, 's');
      expect((await findSchedule(bench.db.reads, 's')).nextAt).not.toBeNull();
      await deleteSchedule(bench.db.bulk, 's');
    }
  });

  it.each([
    ['next_at = null, due_at = null', 'neither a next time, nor a pause, nor an end'],
    ['ended = true', 'a next time and an end'],
    [`paused_at = now(), paused_by = 'ada'`, 'a next time and a pause'],
  ])('the database refuses %s: a schedule with %s', async (change) => {
    await bench.put('s');
    await expect(bench.pool.query(`update drover.schedule set ${change}`)).rejects.toThrow('schedule_moves_on');
  });

  it('refuses what never comes and calendars that do not exist', async () => {
    await expect(bench.put('s', { cron: '0 0 30 2 *', every: undefined })).rejects.toThrow(
      'specs[0].cron: expected a date that exists',
    );
    await expect(bench.put('s', { cron: '0 0 * *', every: undefined })).rejects.toThrow('expected 5 fields');
    await expect(bench.put('s', { exclude: { calendars: ['none'] } })).rejects.toThrow('there is no calendar none');
    await expect(bench.put('s', { job: { type: 'x', payload: 'x'.repeat(70_000) } })).rejects.toThrow(
      'job.payload: expected at most 65536 bytes',
    );
    await expect(findSchedule(bench.db.reads, 's')).rejects.toThrow('there is no schedule s');
  });
});

describe('changing a calendar (J7)', () => {
  const daily = { cron: '0 0 * * *', every: undefined, exclude: { calendars: ['holidays'] } };
  const nextAt = async (name: string) => (await findSchedule(bench.db.reads, name)).nextAt as string;

  it('gives its schedules their next time at once', async () => {
    await putCalendar(bench.db.bulk, 'holidays', 'days off', []);
    await bench.put('s', daily);
    await bench.put('paused', daily);
    await pauseSchedule(bench.db.bulk, 'paused', 'ada', undefined);
    const before = await nextAt('s');
    expect(await putCalendar(bench.db.bulk, 'holidays', 'days off', [before.slice(0, 10)])).toBe(2);
    expect(Date.parse(await nextAt('s'))).toBe(Date.parse(before) + 86_400_000);
    expect((await findSchedule(bench.db.reads, 'paused')).state).toBe('paused');
    await resumeSchedule(bench.db.bulk, 'paused');
    expect(await nextAt('paused')).toBe(await nextAt('s'));
    expect(await putCalendar(bench.db.bulk, 'holidays', 'days off', [before.slice(0, 10)])).toBe(0);
  });

  it('decides what was due by its old days first', async () => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    const everyHour = { exclude: { calendars: ['holidays'] }, catchUp: 'all' as const };
    for (const name of ['a', 'b', 'c']) {
      await bench.put(name, everyHour);
      await bench.age(name, 2);
    }
    const days = [0, 1].map((ago) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10));
    await putCalendar(bench.db.bulk, 'holidays', undefined, days);
    for (const name of ['a', 'b', 'c']) expect(await bench.ledger(name)).toEqual(['fired', 'fired']);
    expect((await nextAt('a')).slice(11)).toBe('00:00:00.000Z');
  });

  it('ends a schedule that has no further day, and starts it again when it has one', async () => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    await bench.put('once', { every: undefined, at: ['2090-05-01T12:00:00Z'], exclude: { calendars: ['holidays'] } });
    await putCalendar(bench.db.bulk, 'holidays', undefined, ['2090-05-01']);
    expect(await findSchedule(bench.db.reads, 'once')).toMatchObject({ state: 'ended', nextAt: null });
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    expect(await findSchedule(bench.db.reads, 'once')).toMatchObject({
      state: 'active',
      nextAt: '2090-05-01T12:00:00.000Z',
    });
  });

  it('is refused as a deletion while a schedule uses it', async () => {
    await putCalendar(bench.db.bulk, 'holidays', undefined, []);
    await bench.put('s', daily);
    await expect(deleteCalendar(bench.db.bulk, 'holidays')).rejects.toThrow('is used by the schedule s');
    await deleteSchedule(bench.db.bulk, 's');
    expect(await deleteCalendar(bench.db.bulk, 'holidays')).toBe(true);
    expect(await deleteCalendar(bench.db.bulk, 'holidays')).toBe(false);
  });
});
