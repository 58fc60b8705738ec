/** What /metrics counts, seen from outside: jobs, workers and schedules do what they do, and a scrape tells of it. */
import { newId } from '@drover/protocol';
import { createClient, defineJob, handle, PermanentError } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createServer } from '../../src/server.js';
import { serverConfig } from '../schedules/support/server-config.js';
import { type ApiBench, createApiBench } from './api-bench.js';

let api: ApiBench;
let url: string;
beforeAll(async () => {
  api = await createApiBench({ lateAfterMs: 2000 });
  url = api.server.address;
});
afterAll(() => api.close());

/** Every sample by its name with its labels. */
async function scrape(): Promise<Map<string, number>> {
  const { text } = await api.call('/metrics');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

/** By how much these samples grow while the work is done and until they have grown so far. */
async function grows(expected: Record<string, number>, work: () => Promise<unknown>): Promise<void> {
  const before = await scrape();
  await work();
  await vi.waitFor(
    async () => {
      const after = await scrape();
      const grown = Object.keys(expected).map((name) => [name, (after.get(name) ?? 0) - (before.get(name) ?? 0)]);
      expect(Object.fromEntries(grown)).toEqual(expected);
    },
    { timeout: 10_000, interval: 50 },
  );
}

describe('GET /metrics', () => {
  it('is the text format of Prometheus', async () => {
    const { status, headers, text } = await api.call('/metrics');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(text).toMatch(/^# HELP drover_jobs_enqueued_total .+\n# TYPE drover_jobs_enqueued_total counter\n/m);
    expect(text.endsWith('\n')).toBe(true);
  });

  it('has every value of every label from the start, and none without bound', async () => {
    const samples = [...(await scrape()).keys()].filter((name) => name.startsWith('drover_') && name.includes('{'));
    expect(samples).toContain('drover_occurrences_skipped_total{reason="missed"}');
    expect(samples).toContain('drover_attempts_total{outcome="lost"}');
    expect(samples.length).toBeLessThan(60);
  });

  it('counts jobs from the call to the end, a repeated call once, and the workers', async () => {
    const fine = defineJob({ type: 'fine' });
    const bad = defineJob({ type: 'bad' });
    const client = createClient({ url });
    const worker = createWorker({
      ...{ url },
      jobs: [
        handle(fine, async () => 'done'),
        handle(bad, async () => {
          throw new PermanentError('never');
        }),
      ],
    });
    const expected = {
      drover_jobs_enqueued_total: 4,
      drover_jobs_granted_total: 4,
      'drover_attempts_total{outcome="succeeded"}': 3,
      'drover_attempts_total{outcome="failed"}': 1,
      'drover_jobs_finished_total{state="succeeded"}': 3,
      'drover_jobs_finished_total{state="failed"}': 1,
      drover_workers: 1,
      drover_held_jobs: 0,
    };
    await grows(expected, async () => {
      await worker.start();
      const id = newId();
      await client.enqueue(fine, null, { id });
      await client.enqueue(fine, null, { id });
      await Promise.all([client.enqueue(fine, null), client.enqueue(fine, null), client.enqueue(bad, null)]);
    });
    await grows({ drover_workers: -1 }, () => worker.stop());
    const waiting = await client.enqueue(fine, null);
    await grows({ 'drover_jobs_finished_total{state="cancelled"}': 1 }, () => waiting.cancel());
    await client.close();
  });

  it('counts occurrences that are fired, late and skipped, and schedules that pause themselves', async () => {
    const client = createClient({ url });
    /** Lets it have been handled until so long ago. */
    const age = (name: string, seconds: number, more = '') =>
      api.database.pool.query(
        `update drover.schedule set next_at = now(), due_at = now(), revision = revision + 1 ${more},
           handled_until = date_trunc('second', now()) - $2 * interval '1 second' where name = $1`,
        [name, seconds],
      );
    const anchor = new Date(Date.now() - 10 * 86_400_000 - 30_000).toISOString();
    await client.schedules.put('late', { every: '10m', anchor, job: { type: 'nobody-runs-this' } });
    await grows(
      {
        drover_occurrences_fired_total: 1,
        drover_occurrences_late_total: 1,
        drover_occurrence_lateness_seconds_count: 1,
      },
      () => age('late', 300),
    );
    const samples = await scrape();
    expect(samples.get('drover_occurrence_lateness_seconds_bucket{le="10"}')).toBe(0);
    expect(samples.get('drover_occurrence_lateness_seconds_bucket{le="60"}')).toBe(1);
    await client.schedules.put('missed', { every: '10m', anchor, catchUp: 'none', job: { type: 'nobody-runs-this' } });
    await grows({ 'drover_occurrences_skipped_total{reason="missed"}': 144 }, () => age('missed', 86_400 + 300));
    await client.schedules.put('broken', { every: '10m', anchor, job: { type: 'nobody-runs-this' } });
    await grows({ 'drover_schedules_paused_total{reason="unreadable"}': 1 }, () =>
      api.database.pool.query(
        `update drover.schedule set definition = '{"specs":[{"kind":"cron","cron":"no"}],"timeZone":"UTC"}', version = 99,
           next_at = now(), due_at = now() where name = 'broken'`,
      ),
    );
    await client.close();
  });

  it('counts what is decided before a schedule is changed', async () => {
    const client = createClient({ url });
    const schedule = { every: '1h', job: { type: 'nobody-runs-this' } } as const;
    // spread over a day: only the change makes it due
    await client.schedules.put('changed', { ...schedule, spread: '1d' });
    await api.database.pool.query(
      `update drover.schedule set handled_until = date_trunc('hour', now()) - interval '1 hour',
         next_at = date_trunc('hour', now()), due_at = now() + interval '1 hour', revision = revision + 1 where name = 'changed'`,
    );
    await grows({ drover_occurrences_fired_total: 1 }, () => client.schedules.put('changed', schedule));
    await client.close();
  });

  it('counts statements that were refused', async () => {
    const refused = async () => (await scrape()).get('drover_database_errors_total{kind="refused"}') as number;
    const before = await refused();
    await api.database.pool.query('alter table drover.beacon rename to elsewhere');
    await vi.waitFor(async () => expect(await refused()).toBeGreaterThan(before), { timeout: 10_000 });
    await api.database.pool.query('alter table drover.elsewhere rename to beacon');
  });

  it('is answered without a database, and counts what could not be sent', async () => {
    const closedPort = new URL(api.database.url);
    closedPort.port = '1';
    const alone = createServer(
      { ...serverConfig(closedPort.href), beatMs: 100 },
      { logger: pino({ level: 'silent' }) },
    );
    await alone.start();
    await vi.waitFor(async () => {
      const text = await (await fetch(`${alone.address}/metrics`)).text();
      expect(Number(/^drover_database_errors_total\{kind="unavailable"\} (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(0);
      expect(text).toMatch(/^drover_beat_age_seconds (Nan|NaN)$/m);
    });
    await alone.stop();
  });
});
