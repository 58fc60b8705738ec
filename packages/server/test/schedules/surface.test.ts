/** Schedules as their users meet them: SDK, HTTP API and command line on a running server with a worker. */
import { scheduleSchema } from '@drover/protocol';
import { type Client, createClient, defineJob, defineSchedule, handle } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createServer, type DroverServer } from '../../src/server.js';
import { drover } from '../cli/run-cli.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { serverConfig } from './support/server-config.js';

let database: TestDatabase;
let server: DroverServer;
let client: Client;

beforeAll(async () => {
  database = await createTestDatabase();
  server = createServer(serverConfig(database.url), { logger: pino({ level: 'silent' }) });
  await server.start();
  client = createClient({ url: server.address });
});
afterAll(async () => {
  await client?.close();
  await server?.stop();
  await database?.drop();
});
afterEach(async () => {
  for (const { name } of (await client.schedules.list({ limit: 1000 })).items) await client.schedules.delete(name);
});

const run = (...args: string[]) => drover([...args, '--url', server.address]);
const yearly = { cron: '0 0 1 1 *', job: { type: 'work' } };

describe('the SDK (J7)', () => {
  it('a schedule makes jobs that know which occurrence they are', async () => {
    const seen: { schedule: string; nominalAt: string }[] = [];
    let enough: () => void = () => {};
    const twice = new Promise<void>((resolve) => {
      enough = resolve;
    });
    const tick = defineJob<{ n: number }>({ type: 'tick' });
    const worker = createWorker({
      jobs: [
        handle(tick, ({ payload, occurrence }) => {
          if (payload.n === 7 && occurrence) seen.push(occurrence);
          if (seen.length === 2) enough();
        }),
      ],
      url: server.address,
    });
    await worker.start();
    await client.schedules.put(defineSchedule({ name: 'ticking', every: '1s', job: tick, payload: { n: 7 } }));
    await twice;
    await worker.stop();
    const { items } = await client.schedules.occurrences('ticking', { state: 'fired' });
    const nominal = items.map(({ nominalAt }) => nominalAt);
    for (const { schedule, nominalAt } of seen) {
      expect(schedule).toBe('ticking');
      expect(nominal).toContain(nominalAt);
    }
    expect(items.every(({ latenessMs }) => (latenessMs as number) >= 0)).toBe(true);
  });

  it('checks a definition when it is made and its payload when it is put', async () => {
    expect(() => defineSchedule({ name: 's', crn: '* * * * *', job: 'x' } as never)).toThrow('did you mean "cron"?');
    expect(() => defineSchedule({ name: 's', job: 'x' })).toThrow(
      'defineSchedule: specs: expected one of cron, every, at and specs',
    );
    expect(() => defineSchedule({ name: 's', cron: '* * * * *', every: '1m', job: 'x' })).toThrow(
      'exactly one of cron, every and at',
    );
    const schema = {
      '~standard': {
        version: 1,
        vendor: 't',
        validate: (value: unknown) => (value === 1 ? { value: 1 } : { issues: [{ message: 'not 1' }] }),
      },
    };
    const job = defineJob<number>({ type: 'x', payload: schema as never });
    await expect(
      client.schedules.put(defineSchedule({ name: 's', cron: '* * * * *', job, payload: 2 })),
    ).rejects.toThrow('not 1');
  });

  it('takes every option and gives it back', async () => {
    const put = await client.schedules.put('all', {
      description: 'everything',
      group: 'g',
      specs: [
        { cron: '0 9 * * MON-FRI' },
        { every: '90m', anchor: '2030-01-01T00:00:00Z' },
        { at: ['2040-01-01T00:00:00Z'] },
      ],
      ...{ timeZone: 'Europe/Berlin', gap: 'before', repeat: 'last', exclude: { dates: ['2030-12-25'] } },
      ...{ start: '2030-01-01T00:00:00Z', end: '2041-01-01T00:00:00Z', spread: '5m', jitter: '10s', maxOccurrences: 9 },
      ...{ catchUp: 'all', catchUpWindow: '2h', overlap: 'queue-one', pauseAfterFailures: 3 },
      job: {
        type: 'x',
        payload: [1],
        queue: 'q',
        priority: 3,
        maxAttempts: 2,
        backoff: { kind: 'fixed', delay: '1s' },
        timeout: '1m',
        retention: '1d',
        expiresIn: '1h',
        tags: ['t'],
        onLost: 'hold',
      },
    });
    scheduleSchema.strict().parse(put);
    expect(put).toMatchObject({
      timeZone: 'Europe/Berlin',
      gap: 'before',
      repeat: 'last',
      spread: 300_000,
      jitter: 10_000,
    });
    expect(put).toMatchObject({ maxOccurrences: 9, catchUp: 'all', catchUpWindow: 7_200_000, overlap: 'queue-one' });
    expect(put.specs).toHaveLength(3);
    expect(put.job).toMatchObject({ onLost: 'hold', expiresIn: 3_600_000, payload: [1] });
    expect(put.text).toMatch('at 09:00 on Monday to Friday; and every 90m from 2030-01-01');
  });

  it('sync makes a group what the code says', async () => {
    const define = (name: string) => defineSchedule({ name, cron: '0 0 1 1 *', job: 'x' });
    await client.schedules.put('by-hand', yearly);
    await client.schedules.sync([define('a'), define('b')], { group: 'app' });
    expect(await client.schedules.sync([define('a')], { group: 'app' })).toEqual({
      put: ['a'],
      resumed: [],
      paused: ['b'],
      deleted: [],
    });
    expect((await client.schedules.get('b')).pause?.note).toBe('no longer in the code');
    expect((await client.schedules.sync([define('b')], { group: 'app' })).resumed).toEqual(['b']);
    expect(await client.schedules.sync([define('b')], { group: 'app', missing: 'delete' })).toMatchObject({
      deleted: ['a'],
    });
    expect((await client.schedules.list()).items.map(({ name }) => name)).toEqual(['b', 'by-hand']);
  });

  it('lists by group and state, page by page', async () => {
    for (const name of ['a', 'b', 'c']) await client.schedules.put(name, { ...yearly, group: 'g' });
    await client.schedules.pause('b', { note: 'why' });
    const first = await client.schedules.list({ group: 'g', limit: 2 });
    const rest = await client.schedules.list({ group: 'g', limit: 2, cursor: first.nextCursor as string });
    expect([...first.items, ...rest.items].map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect((await client.schedules.list({ state: 'paused' })).items.map(({ pause }) => pause?.note)).toEqual(['why']);
    await expect(client.schedules.list({ cursor: '' })).rejects.toThrow('cursor');
  });
});

describe('the HTTP API (J7)', () => {
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${server.address}/api/v1${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    return { status: answer.status, body: (await answer.json()) as { error?: { code: string; message: string } } };
  };

  it.each([
    [{ cron: '0 0 30 2 *' }, 'specs[0].cron: expected a date that exists; this one never comes, got "0 0 30 2 *"'],
    [{ cron: '61 * * * *' }, 'specs[0].cron: minute: expected a number from 0 to 59, got 61'],
    [{ cron: '* * * * *', timeZone: 'Mars/Base' }, 'timeZone: expected an IANA time zone'],
    [{ cron: '* * * * *', timeZone: '+02:00' }, 'timeZone: expected an IANA time zone'],
    [{ every: '10ms' }, 'expected an interval of at least one second'],
    [{ every: '1h', overlap: 'never' }, 'overlap'],
    [
      { every: '1h', start: '2031-01-01T00:00:00Z', end: '2030-01-01T00:00:00Z' },
      'end: expected an end after the start',
    ],
    [{ every: '1h', anchr: 1 }, 'unknown field "anchr"'],
    [
      { at: ['2030-01-01T00:00:00Z'], exclude: { dates: ['2030-01-01'] } },
      'expected a schedule with at least one occurrence',
    ],
  ])('refuses %j', async (fields, message) => {
    const { status, body } = await call('PUT', '/schedules/s', { job: { type: 'x' }, ...fields });
    expect([status, body.error?.code]).toEqual([400, 'invalid_request']);
    expect(body.error?.message).toContain(message);
  });

  it('answers what does not exist with its own code', async () => {
    expect((await call('GET', '/schedules/none')).body.error?.code).toBe('schedule_not_found');
    expect((await call('POST', '/schedules/none/trigger')).body.error?.code).toBe('schedule_not_found');
    expect((await call('GET', '/calendars/none')).body.error?.code).toBe('calendar_not_found');
    expect(await call('DELETE', '/schedules/none')).toEqual({ status: 200, body: { deleted: false } });
  });

  it('takes names that must be written differently in an address', async () => {
    const path = `/schedules/${encodeURIComponent('team/a@b:c')}`;
    expect((await call('PUT', path, yearly)).body).toMatchObject({ name: 'team/a@b:c', state: 'active' });
    expect((await call('GET', path)).status).toBe(200);
  });
});

describe('the command line (J7)', () => {
  it('puts, shows, pauses, resumes, triggers, backfills, lists and deletes', async () => {
    const flags = [
      '--cron',
      '30 9 * * MON-FRI',
      '--time-zone',
      'Europe/Berlin',
      '--overlap',
      'skip',
      '--queue',
      'mail',
      '--expires-in',
      '1h',
    ];
    expect((await run('schedule', 'put', 'report', 'send', '{"to":"ada"}', ...flags)).stdout).toMatch(
      /^report is active, next 20/,
    );
    const shown = JSON.parse((await run('schedule', 'show', 'report', '--json')).stdout);
    expect(shown).toMatchObject({
      overlap: 'skip',
      timeZone: 'Europe/Berlin',
      job: { type: 'send', payload: { to: 'ada' }, queue: 'mail', expiresIn: 3_600_000 },
    });
    expect((await run('schedule', 'show', 'report')).stdout).toMatch('at 09:30 on Monday to Friday, Europe/Berlin');
    expect((await run('schedule', 'pause', 'report', '--note', 'rest')).stdout).toBe('report is paused\n');
    expect((await run('schedule', 'resume', 'report')).stdout).toMatch(/^report is active/);
    const id = (await run('schedule', 'trigger', 'report')).stdout.trim();
    expect((await run('job', 'show', id)).stdout).toMatch(/schedule\s+report for /);
    const range = ['--from', '2024-01-01T00:00:00Z', '--to', '2024-01-31T23:00:00Z'];
    expect((await run('schedule', 'backfill', 'report', ...range, '--dry-run')).stdout).toBe(
      '23 occurrences, 0 had a job, 23 would be fired\n',
    );
    expect((await run('schedule', 'occurrences', 'report')).stdout).toMatch('triggered');
    expect((await run('schedule', 'list')).stdout).toMatch('report');
    expect(
      (await run('schedule', 'preview', 'report', '--count', '2', '--after', '2030-03-29T00:00:00Z')).stdout,
    ).toMatch('2030-04-01T09:30:00+02:00');
    expect((await run('schedule', 'delete', 'report')).stdout).toBe('report is deleted\n');
    expect((await run('schedule', 'show', 'report')).code).toBe(5);
  });

  it('previews what does not exist, with what clocks do to it', async () => {
    const { stdout } = await run(
      'schedule',
      'preview',
      '--cron',
      '30 2 * * *',
      '--time-zone',
      'Europe/Berlin',
      '--after',
      '2030-03-30T12:00:00Z',
      '--count',
      '1',
    );
    expect(stdout).toMatch('02:30 does not exist on this day: clocks go forward; shifted');
    expect((await run('schedule', 'preview', '--cron', 'x')).code).toBe(2);
    expect((await run('schedule', 'put', 's')).code).toBe(2);
  });

  it('keeps calendars', async () => {
    await run('calendar', 'put', 'holidays', '--date', '2030-12-25', '--date', '2030-12-26');
    expect((await run('calendar', 'show', 'holidays')).stdout).toBe('2030-12-25\n2030-12-26\n');
    await run(
      'schedule',
      'put',
      's',
      'x',
      '--cron',
      '0 0 25 12 *',
      '--exclude-calendar',
      'holidays',
      '--exclude-date',
      '2031-12-25',
    );
    expect((await run('calendar', 'delete', 'holidays')).stderr).toMatch('is used by the schedule s');
    await run('schedule', 'delete', 's');
    expect((await run('calendar', 'delete', 'holidays')).stdout).toBe('holidays is deleted\n');
    expect((await run('calendar', 'list')).stdout).toBe('no calendars\n');
  });
});
