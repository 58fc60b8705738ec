/** A server is paused with an add in its hands; the client repeats it elsewhere, and then the server goes on. */
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { CALLS_PATH, ERA_HEADER } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { afterEach, expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

const stage = createStage();

/** The era that a server names when it accepts a call stream. */
function eraToldBy(url: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    };
    const outgoing = request(`${url}${CALLS_PATH}`, { headers });
    outgoing.on('error', reject);
    outgoing.on('upgrade', (response, socket) => {
      socket.destroy();
      resolve(response.headers[ERA_HEADER]);
    });
    outgoing.end();
  });
}

afterEach(() => expect(stage.illegalMoves()).toEqual([]));

test.each([
  ['an add', 1],
  ['adds that came together', 3],
])(
  'V1 %s, late, after the repetition has finished, add nothing',
  async (_, count) => {
    const [paused, other] = await Promise.all([stage.startServer(), stage.startServer()]);
    await stage.startWorker({ name: 'only', url: [other.url], slots: 5, queues: ['late'] });
    const era = async () => (await stage.pool.query('select last_value from drover.era')).rows[0].last_value;
    const client = createClient({ url: [paused.url, other.url], timeout: '3s' });
    const add = () =>
      Promise.all(Array.from({ length: count }, () => client.enqueue('work', { ms: 1 }, { queue: 'late' })));
    try {
      // until the client has a stream, the server knows the lane, and jobs are added without a look
      const withoutLook = `select from pg_stat_activity where datname = current_database()
      and query like '%insert into drover.job%last_value%' and query like '%with added%' = $1 and pid <> pg_backend_pid()`;
      await until('jobs are added without a look', async () => {
        await add();
        return (await stage.pool.query(withoutLook, [count > 1])).rowCount !== 0;
      });

      const eraBefore = await era();
      paused.kill('SIGSTOP');
      const repeated = await add();
      await Promise.all(repeated.map((job) => job.result({ timeout: '10s' })));
      expect(await era()).not.toBe(eraBefore);
      paused.kill('SIGCONT');

      // it has tried to add the jobs in an era that is over, and learnt of the new one
      const now = await era();
      await until('the paused server has dealt with what it had', async () => (await eraToldBy(paused.url)) === now);
      await until('everything has run', async () => (await stage.pool.query('select from drover.job')).rowCount === 0);
      for (const { id } of repeated) {
        expect(stage.witness.events({ id, event: 'start' })).toHaveLength(1);
        const { rows } = await stage.pool.query('select from drover.job_history where id = $1', [id]);
        expect(rows).toHaveLength(1);
      }
    } finally {
      await client.close();
    }
  },
  60_000,
);
