/**
 * New rules of time zones. The rules of this process are what they are, so the rows are made as a server with other rules
 * would have written them: with other times in UTC for the same local times.
 */
import { type NewScheduleInput, newScheduleSchema } from '@drover/protocol';
import type pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { connectDatabase, type Database } from '../../src/db/database.js';
import { fireDue } from '../../src/schedules/fire-due.js';
import { FIRST_ID, followNewRules, replaceOlderRules } from '../../src/schedules/follow-rules.js';
import { findSchedule } from '../../src/schedules/list-schedules.js';
import { putSchedule } from '../../src/schedules/put-schedule.js';
import { ZONE_RULES } from '../../src/schedules/timing/zone.js';
import { createServer } from '../../src/server.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { serverConfig } from './support/server-config.js';

const HOUR_MS = 3_600_000;
const NEWER = '9999z';
const ALL = { index: 0, of: 1 };
let database: TestDatabase;
let db: Database;
let pool: pg.Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = database.pool;
  db = connectDatabase({ url: database.url, poolSize: 4 });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});
beforeEach(() => pool.query('truncate drover.schedule, drover.occurrence, drover.job'));

const put = (name: string, input: Partial<NewScheduleInput>) =>
  putSchedule(db.bulk, name, newScheduleSchema.parse({ timeZone: 'Asia/Tokyo', job: { type: 'work' }, ...input }));
const nextMs = async (name: string) => Date.parse((await findSchedule(db.reads, name)).nextAt as string);
const row = async () =>
  (await pool.query('select *, extract(epoch from handled_until) * 1000 as handled_ms from drover.schedule')).rows[0];
async function follow(limit = 500): Promise<number> {
  let batches = 0;
  for (let after: string | undefined = FIRST_ID; after !== undefined; batches++)
    after = await followNewRules(db.bulk, limit, after);
  return batches;
}
const iso = (ms: number) => new Date(ms).toISOString();

/** As rules would have left it by which local time in Tokyo is so many hours further ahead of UTC than by ours. */
async function foundByOldRules(hoursAhead: number): Promise<void> {
  await pool.query(
    `update drover.schedule set zone_rules = '2000a', next_offset_ms = next_offset_ms + $1 * ${HOUR_MS},
       next_at = next_at - $1 * interval '1 hour', due_at = due_at - $1 * interval '1 hour'`,
    [hoursAhead],
  );
}

/** A cron pattern for the full hour that comes so many hours from now, in Tokyo; seconds away from any hour it is the same. */
function dailyIn(hours: number): string {
  const local = new Date(Math.floor(Date.now() / HOUR_MS) * HOUR_MS + hours * HOUR_MS + 9 * HOUR_MS);
  return `0 ${local.getUTCHours()} * * *`;
}

describe('new rules of time zones (J7)', () => {
  it('a schedule knows the rules by which its next time was found', async () => {
    await put('daily', { cron: '0 9 * * *' });
    expect(await row()).toMatchObject({ zone_rules: ZONE_RULES, next_offset_ms: 9 * HOUR_MS, rules_outdated: false });
    expect(ZONE_RULES).toMatch(/^20\d\d[a-z]$/);
  });

  it.each([-2, 3])('the same local time gets its new time in UTC (%i hours)', async (hours) => {
    await put('daily', { cron: dailyIn(12) });
    const right = await nextMs('daily');
    await foundByOldRules(hours);
    expect(await nextMs('daily')).toBe(right - hours * HOUR_MS);
    await follow();
    expect(await nextMs('daily')).toBe(right);
    expect(await row()).toMatchObject({ zone_rules: ZONE_RULES, next_offset_ms: 9 * HOUR_MS });
  });

  it('a time that moved to before the last firing is fired, not lost', async () => {
    await put('daily', { cron: dailyIn(-2), catchUp: 'all' });
    const right = (await nextMs('daily')) - 24 * HOUR_MS;
    // by the old rules it is due in an hour, and the one before was fired after the time that is right
    await pool.query(
      `update drover.schedule set zone_rules = '2000a', next_offset_ms = next_offset_ms - ${3 * HOUR_MS},
         handled_until = $1, next_at = $2, due_at = $2`,
      [iso(right + HOUR_MS), iso(right + 3 * HOUR_MS)],
    );
    await follow();
    expect(await nextMs('daily')).toBe(right);
    expect((await fireDue(db.bulk, 10, ALL)).jobs).toBe(1);
    expect(await nextMs('daily')).toBe(right + 24 * HOUR_MS);
  });

  it('a time that was fired by the old rules does not come again by the new ones', async () => {
    await put('daily', { cron: dailyIn(1) });
    const again = await nextMs('daily');
    // fired two hours too early, as it now turns out; what is next on the wall is tomorrow’s
    const tomorrow = again + 24 * HOUR_MS;
    await pool.query(
      `update drover.schedule set zone_rules = '2000a', next_offset_ms = next_offset_ms + ${2 * HOUR_MS},
         handled_until = $1, next_at = $2, due_at = $2`,
      [iso(again - 2 * HOUR_MS), iso(tomorrow - 2 * HOUR_MS)],
    );
    await follow();
    expect(await nextMs('daily')).toBe(tomorrow);
  });

  it('a time that a gap of the old rules had shifted is fired when the new ones have no gap', async () => {
    await put('daily', { cron: dailyIn(12) });
    // read with the offset before the gap, so at the right time, but local clocks showed an hour more
    const right = await nextMs('daily');
    await pool.query(
      `update drover.schedule set zone_rules = '2000a', next_offset_ms = next_offset_ms + ${HOUR_MS}, handled_until = $1`,
      [iso(right - 24 * HOUR_MS)],
    );
    await follow();
    expect(await nextMs('daily')).toBe(right);
  });

  it('patterns of every hour, intervals and UTC keep their rhythm', async () => {
    await put('hourly', { cron: '0 * * * *' });
    await put('interval', { every: '1h' });
    await put('utc', { cron: '0 9 * * *', timeZone: 'UTC' });
    const before = await Promise.all(['hourly', 'interval', 'utc'].map(nextMs));
    await pool.query(
      `update drover.schedule set zone_rules = '2000a', next_offset_ms = next_offset_ms + ${HOUR_MS / 2}`,
    );
    await follow();
    expect(await Promise.all(['hourly', 'interval', 'utc'].map(nextMs))).toEqual(before);
  });

  it('all are followed, batch by batch', async () => {
    // up to an id of two digits, which as a text would come before the others
    for (let index = 0; index < 12; index++) await put(`s${index}`, { cron: dailyIn(12) });
    await foundByOldRules(1);
    // of five, five and two, and a last pass that finds nothing
    expect(await follow(5)).toBe(4);
    const { rows } = await pool.query('select distinct zone_rules from drover.schedule');
    expect(rows).toEqual([{ zone_rules: ZONE_RULES }]);
  });

  it('a server that starts with newer rules follows them', async () => {
    await put('daily', { cron: dailyIn(12) });
    const right = await nextMs('daily');
    await foundByOldRules(1);
    const server = createServer(serverConfig(database.url), { logger: pino({ level: 'silent' }) });
    await server.start();
    try {
      await vi.waitFor(async () => expect(await nextMs('daily')).toBe(right), { timeout: 10_000, interval: 50 });
    } finally {
      await server.stop();
    }
  });

  it('servers with older rules fire, and leave what newer ones have found; newer ones take back what older ones wrote', async () => {
    await put('daily', { cron: dailyIn(12) });
    await pool.query(
      `update drover.schedule set zone_rules = '${NEWER}', handled_until = handled_until - interval '1 day',
         next_at = next_at - interval '1 day', due_at = due_at - interval '1 day'`,
    );
    // this server is the older one
    const before = await row();
    await follow();
    await replaceOlderRules(db.bulk, 10);
    expect(await row()).toEqual(before);
    expect((await fireDue(db.bulk, 10, ALL)).jobs).toBe(1);
    const fired = await row();
    expect(fired).toMatchObject({ zone_rules: ZONE_RULES, rules_outdated: true });
    await replaceOlderRules(db.bulk, 10);
    expect(await row()).toEqual(fired);
    // now it is the newer one
    await replaceOlderRules(db.bulk, 10, NEWER);
    expect(await row()).toMatchObject({ zone_rules: NEWER, rules_outdated: false, next_at: fired.next_at });
    // and the older one leaves it alone again
    const replaced = await row();
    await follow();
    expect(await row()).toEqual(replaced);
  });
});
