/** Everything is restarted and killed in the middle of load; no acknowledged job is lost or finished twice. */
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../support/free-port.js';
import { allFinished, BATCH, type Finished, faults, startLoad } from '../support/load.js';
import { type OwnPostgres, startOwnPostgres } from '../support/own-postgres.js';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const TEST_MS = 180_000;
/** Jobs that are acknowledged before, between and after the blows. */
const SOME = 400;
const CUTS = 25;
/** pino's number. */
const WARN = 40;

let postgres: OwnPostgres;
const stage = createStage(async () => {
  postgres = await startOwnPostgres();
  return postgres;
});
let first: ServerProcess;
let second: ServerProcess;
const urls = () => [first.url, second.url];

beforeAll(async () => {
  [first, second] = await Promise.all([stage.startServer(), stage.startServer()]);
  const queues = ['stop', 'kill', 'cut', 'fast', 'immediate', 'crash'];
  await Promise.all(
    ['alpha', 'beta', 'gamma'].map((name) => stage.startWorker({ name, url: urls(), slots: 5, queues })),
  );
}, 120_000);
afterEach(() => expect(stage.illegalMoves()).toEqual([]));

/** Runs the blow in the middle of load and gives the jobs as they ended. */
async function underLoad(queue: string, blow: (more: (count: number) => Promise<void>) => Promise<void>) {
  const load = startLoad(stage.client(urls()), queue);
  await load.more(SOME);
  await blow(load.more);
  await load.more(SOME);
  const acknowledged = await load.stop();
  const finished = await allFinished(stage.pool, queue);
  expect(faults(acknowledged, finished)).toEqual([]);
  const ended = new Set(stage.witness.events({ queue, event: 'end' }).map(({ id }) => id));
  expect(acknowledged.filter((id) => !ended.has(id))).toEqual([]);
  return finished;
}

/** Jobs whose handler was started more often than the history says. */
function startedTooOften(queue: string, finished: readonly Finished[]): string[] {
  const starts = new Map<string, number>();
  for (const { id } of stage.witness.events({ queue, event: 'start' })) starts.set(id, (starts.get(id) ?? 0) + 1);
  return finished.filter(({ id, attempt }) => (starts.get(id) ?? 0) > attempt).map(({ id }) => id);
}

describe('H1: in the middle of load', () => {
  test(
    'servers are stopped and started again: nothing is lost, and no job is interrupted or run twice',
    async () => {
      const finished = await underLoad('stop', async (more) => {
        expect(await first.stop()).toBe(0);
        await more(SOME);
        first = await stage.startServer({ port: first.port });
        await more(SOME);
        expect(await second.stop()).toBe(0);
        await more(SOME);
        second = await stage.startServer({ port: second.port });
      });
      expect(startedTooOften('stop', finished)).toEqual([]);
      expect(finished.filter(({ attempt }) => attempt > 1)).toEqual([]);
    },
    TEST_MS,
  );

  test(
    'J2, J3, D9: servers are killed: nothing is lost, and their workers deliver to another one',
    async () => {
      const finished = await underLoad('kill', async (more) => {
        await first.destroy();
        await more(SOME);
        first = await stage.startServer({ port: first.port });
        await more(SOME);
        await second.destroy();
        await more(SOME);
        second = await stage.startServer({ port: second.port });
      });
      expect(startedTooOften('kill', finished)).toEqual([]);
    },
    TEST_MS,
  );

  test(
    'connections to the database are cut again and again: no server falls over it',
    async () => {
      await underLoad('cut', async (more) => {
        for (let cut = 0; cut < CUTS; cut++) {
          await stage.pool.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'drover%'",
          );
          await more(BATCH);
        }
      });
      expect([first.hasExited, second.hasExited]).toEqual([false, false]);
    },
    TEST_MS,
  );

  test.each(['fast', 'immediate', 'crash'] as const)(
    'PostgreSQL is restarted (%s): nothing is lost',
    async (how) => {
      const finished = await underLoad(how, () => postgres.restart(how));
      expect([first.hasExited, second.hasExited]).toEqual([false, false]);
      expect(startedTooOften(how, finished)).toEqual([]);
    },
    TEST_MS,
  );
});

/** What a server reported at `warn` or above, apart from its workers. */
function reportsOf(server: ServerProcess): string[] {
  const lines = server.log().trim().split('\n');
  const reports = lines.map((line) => JSON.parse(line)).filter(({ level }) => level >= WARN);
  return reports.map(({ event }) => event).filter((event) => !event.startsWith('worker'));
}

test(
  'an outage of PostgreSQL is one line when it begins and one when it ends, whatever fails meanwhile',
  async () => {
    const servers = [await stage.startServer(), await stage.startServer()];
    const client = stage.client(servers.map(({ url }) => url));
    let enqueued: Promise<unknown> | undefined;
    await postgres.restart('immediate', async () => {
      enqueued = client.enqueue('sum', { a: 1, b: 2 }, { queue: 'outage' });
      for (const server of servers) {
        for (let asked = 0; asked < 5; asked++) {
          expect((await fetch(`${server.url}/api/v1/stats`)).status).toBe(503);
        }
      }
    });
    await enqueued;
    for (const server of servers) {
      await until('it is over', () => server.log().includes('database.available'));
      const reports = reportsOf(server);
      // the pulse of the cluster, which keeps workers alive, is another subject
      expect(reports.filter((event) => event !== 'pulse.stopped')).toEqual([
        'database.unavailable',
        'database.available',
      ]);
    }
    await Promise.all(servers.map((server) => server.stop()));
  },
  TEST_MS,
);

test('D3, J5: the jobs of a worker that is killed are run by another after its lease', async () => {
  const client = stage.client(urls());
  const victim = await stage.startWorker({ name: 'victim', url: urls(), slots: 3, queues: ['lost'], prefetch: 3 });
  const jobs = Array.from({ length: 6 }, () => ({
    job: 'hold',
    payload: { gate: 'heir' },
    // attempts that are lost with their worker do not count against this
    options: { queue: 'lost', maxAttempts: 1 },
  }));
  const handles = await client.enqueueMany(jobs);
  await until('three run and three wait at the worker', async () => {
    const { rows } = await stage.pool.query("select from drover.job where queue = 'lost' and state = 'running'");
    return rows.length === 6 && stage.witness.events({ worker: 'victim', event: 'start' }).length === 3;
  });
  await victim.destroy();
  const heir = await stage.startWorker({ name: 'heir', url: urls(), slots: 10, queues: ['lost'] });
  heir.open('heir');
  await Promise.all(handles.map((handle) => handle.result({ timeout: '30s' })));
  expect(stage.witness.events({ queue: 'lost', event: 'start', worker: 'heir' })).toHaveLength(6);
  for (const handle of handles) {
    const { attempts } = await handle.get();
    expect(attempts).toMatchObject([
      { attempt: 1, outcome: 'lost', worker: 'victim', error: { code: 'lost' } },
      { attempt: 2, outcome: 'succeeded', worker: 'heir' },
    ]);
  }
});

test('P2: a worker that is told to stop finishes what runs and hands back what waits, and no attempt is used up', async () => {
  const client = stage.client(urls());
  const leaver = await stage.startWorker({ name: 'leaver', url: urls(), slots: 2, queues: ['leave'], prefetch: 4 });
  const jobs = Array.from({ length: 6 }, () => ({
    job: 'hold',
    payload: { gate: 'leave' },
    options: { queue: 'leave' },
  }));
  const handles = await client.enqueueMany(jobs);
  const counts = async () => {
    const { rows } = await stage.pool.query<{ state: string; count: number; attempts: number }>(
      `select state, count(*)::int as count, max(attempt) as attempts
       from drover.job where queue = 'leave' group by state order by state`,
    );
    return rows.map(({ state, count, attempts }) => `${count} ${state} ${attempts}`).join(', ');
  };
  await until('all six are at the worker', async () => (await counts()) === '6 running 1');
  await until('two run', () => stage.witness.events({ worker: 'leaver', event: 'start' }).length === 2);
  leaver.kill('SIGTERM');
  await until('four are handed back', async () => (await counts()) === '4 ready 0, 2 running 1');
  leaver.open('leave');
  expect(await leaver.exited).toBe(0);
  expect(await counts()).toBe('4 ready 0');
  const next = await stage.startWorker({ name: 'next', url: urls(), slots: 4, queues: ['leave'] });
  next.open('leave');
  await Promise.all(handles.map((handle) => handle.result({ timeout: '30s' })));
  const finished = await allFinished(stage.pool, 'leave');
  expect(finished.map(({ state, attempt }) => `${state} ${attempt}`)).toEqual(Array(6).fill('succeeded 1'));
  expect(stage.witness.events({ queue: 'leave', event: 'start' })).toHaveLength(6);
});

test('J1: a worker may start before its server', async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const early = stage.launchWorker({ name: 'early', url, slots: 1, queues: ['early'] });
  const handle = await stage.client(urls()).enqueue('sum', { a: 1, b: 2 }, { queue: 'early' });
  await until('it has tried in vain', () => early.log().includes('not connected'));
  const late = await stage.startServer({ port });
  expect(await stage.client(url).job(handle.id).result({ timeout: '30s' })).toEqual({ sum: 3 });
  expect(await early.stop()).toBe(0);
  expect(await late.stop()).toBe(0);
});
