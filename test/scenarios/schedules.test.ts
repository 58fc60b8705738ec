/** A schedule from the call that makes it to the handler, over the death of a server that was firing it. */
import { expect, test, vi } from 'vitest';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

vi.setConfig({ testTimeout: 60_000 });
const stage = createStage();

test('J7, H5, V2: every occurrence runs once, also when the server that fires them dies', async () => {
  const [first, second] = await Promise.all([stage.startServer(), stage.startServer()]);
  const urls = [first.url, second.url];
  await stage.startWorker({ name: 'scheduled', url: urls, slots: 4, queues: ['ticks'] });
  const client = stage.client(urls);
  await client.schedules.put('cron', {
    ...{ cron: '* * * * * *', catchUp: 'all' },
    job: { type: 'sum', payload: { a: 1, b: 1 }, queue: 'ticks' },
  });
  await client.schedules.put('interval', {
    ...{ every: '1s', catchUp: 'all' },
    job: { type: 'sum', payload: { a: 2, b: 2 }, queue: 'ticks' },
  });
  const ended = () => stage.witness.events({ queue: 'ticks', event: 'end' }).length;
  await until('the first ones have run', () => ended() >= 4);
  // whichever of the two was firing, it is the other one after one of these
  await first.destroy();
  const atFirst = ended();
  await until('more have run without the first server', () => ended() >= atFirst + 4);
  const third = await stage.startServer({ port: first.port });
  await second.destroy();
  const atSecond = ended();
  await until('more have run without the second server', () => ended() >= atSecond + 4);
  for (const name of ['cron', 'interval']) await client.schedules.pause(name);
  await until('nothing is left to do', async () => (await stage.pool.query('select from drover.job')).rowCount === 0);

  const started = stage.witness.events({ queue: 'ticks', event: 'start' }).map(({ id }) => id);
  expect(new Set(started).size).toBe(started.length);
  for (const name of ['cron', 'interval']) {
    const { rows } = await stage.pool.query<{ ms: number; job: string | null }>(
      `select (extract(epoch from nominal_at) * 1000)::float8 as ms, job_id::text as job
       from drover.occurrence o join drover.schedule s on s.id = o.schedule_id
       where s.name = $1 and o.state = 'fired' order by nominal_at`,
      [name],
    );
    const gaps = rows.slice(1).map(({ ms }, index) => ms - (rows[index]?.ms ?? 0));
    expect(gaps).toEqual(gaps.map(() => 1000));
    expect(rows.filter(({ job }) => job === null || !started.includes(job))).toEqual([]);
  }
  expect(stage.illegalMoves()).toEqual([]);
  expect(await third.stop()).toBe(0);
});
