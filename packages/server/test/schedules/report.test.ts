/** The events of schedules, as the log of a server over a real database shows them. */
import { createClient } from '@drover/sdk';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createServer, type DroverServer } from '../../src/server.js';
import { createEvents } from '../../src/telemetry/log-events.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { serverConfig } from './support/server-config.js';

const LATE_AFTER_MS = 5000;
const job = { type: 'nobody-runs-this' };
let database: TestDatabase;
let server: DroverServer;
let lines: Record<string, unknown>[];
const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
const eventsOf = (schedule: string) => lines.filter((line) => line.schedule === schedule && line.event !== undefined);

beforeAll(async () => {
  lines = [];
  database = await createTestDatabase();
  server = createServer({ ...serverConfig(database.url), lateAfterMs: LATE_AFTER_MS }, { logger });
  await server.start();
});
afterAll(async () => {
  await server.stop();
  await database.drop();
});

/** Makes a schedule of every ten minutes whose latest occurrence was so long ago, with so many before it undecided too. */
async function overdue(name: string, agoMs: number, count: number, more: object = {}): Promise<number> {
  const client = createClient({ url: server.address });
  const { rows } = await database.pool.query<{ ms: number }>(
    'select floor(extract(epoch from now()) * 1000)::double precision as ms',
  );
  const latestMs = (rows[0] as { ms: number }).ms - agoMs;
  const anchor = new Date(latestMs - 86_400_000).toISOString();
  await client.schedules.put(name, { every: '10m', anchor, job, ...more });
  await client.close();
  await database.pool.query(
    `update drover.schedule set next_at = now(), due_at = now(), revision = revision + 1, handled_until = $2 where name = $1`,
    [name, new Date(latestMs - count * 600_000)],
  );
  return latestMs;
}

const iso = (ms: number) => new Date(ms).toISOString();

describe('events of schedules (J7)', () => {
  it('report late occurrences with their count, their range and the lateness', async () => {
    const latestMs = await overdue('late', 30_000, 3, { catchUp: 'all' });
    await vi.waitFor(() => expect(eventsOf('late')).toHaveLength(1), { timeout: 10_000 });
    expect(eventsOf('late')[0]).toMatchObject({
      event: 'schedule.late',
      level: 40,
      count: 3,
      first: iso(latestMs - 1_200_000),
      last: iso(latestMs),
      msg: 'occurrences were fired late',
    });
    expect(eventsOf('late')[0]?.latenessMs).toBeGreaterThan(1_200_000);
  });

  it('report nothing for an occurrence that is fired in time', async () => {
    await overdue('soon', LATE_AFTER_MS - 4000, 1);
    await vi.waitFor(
      async () => expect((await database.pool.query('select from drover.job')).rowCount).toBeGreaterThan(3),
      { timeout: 10_000 },
    );
    expect(eventsOf('soon')).toEqual([]);
  });

  it('report skipped occurrences with the reason', async () => {
    const latestMs = await overdue('missed', 120_000, 3, { catchUp: 'none' });
    await vi.waitFor(() => expect(eventsOf('missed')).toHaveLength(1), { timeout: 10_000 });
    expect(eventsOf('missed')[0]).toMatchObject({
      ...{ event: 'schedule.skipped', reason: 'missed', count: 3 },
      ...{ first: iso(latestMs - 1_200_000), last: iso(latestMs) },
    });
  });

  it('report a schedule that pauses itself', async () => {
    await overdue('unreadable', 1000, 1);
    await database.pool.query(
      `update drover.schedule set definition = '{"specs":[{"kind":"cron","cron":"no"}],"timeZone":"UTC"}', version = 99,
         next_at = now(), due_at = now(), revision = revision + 1 where name = 'unreadable'`,
    );
    await vi.waitFor(() => expect(eventsOf('unreadable').at(-1)).toMatchObject({ event: 'schedule.paused' }), {
      timeout: 10_000,
    });
    expect(eventsOf('unreadable').at(-1)).toMatchObject({ reason: 'unreadable', err: { type: 'CronError' } });
  });

  it('of very many at once, count those that are left out', () => {
    lines = [];
    const all = Array.from({ length: 25 }, (_, index) => ({ schedule: `s${index}`, reason: 'failures' as const }));
    createEvents(logger).tell('schedule.paused', all);
    expect(lines).toHaveLength(21);
    expect(lines.at(-1)).toMatchObject({ event: 'schedule.paused', untold: 5 });
  });
});
