/** A server is frozen with new jobs in its hands; the client sends them to another one, and then the server resumes. */
import { createClient } from '@drover/sdk';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { createStage } from '../support/stage.js';
import { until } from '../support/until.js';

const stage = createStage();

/** Records each insert of a job whose transaction commits, also one that takes its own row back. */
beforeAll(() =>
  stage.pool.query(`
    create table public.inserted (id uuid);
    create function public.note_insert() returns trigger language plpgsql as $$
      begin insert into public.inserted values (new.id); return null; end $$;
    create trigger note_insert after insert on drover.job for each row execute function public.note_insert()`),
);
afterEach(() => expect(stage.illegalMoves()).toEqual([]));

test.each([
  ['an add', 1],
  ['adds that came together', 3],
  ['adds that came together and are copied', 40],
])(
  'V1 %s, late, after the repetition has finished, add nothing',
  async (_, count) => {
    const [frozen, other] = await Promise.all([stage.startServer(), stage.startServer()]);
    const queue = `late-${count}`;
    await stage.startWorker({ name: `only-${count}`, url: [other.url], slots: 5, queues: [queue] });
    const client = createClient({ url: [frozen.url, other.url], timeout: '3s' });
    const add = () => Promise.all(Array.from({ length: count }, () => client.enqueue('work', { ms: 1 }, { queue })));
    try {
      // until the client has a call stream
      for (let round = 0; round < 3; round++) await add();

      frozen.kill('SIGSTOP');
      const repeated = await add();
      await Promise.all(repeated.map((job) => job.result({ timeout: '10s' })));
      frozen.kill('SIGCONT');

      const ids = repeated.map(({ id }) => id);
      await until('the frozen server has tried to add what it had', async () => {
        const { rows } = await stage.pool.query('select count(*)::int from public.inserted where id = any($1)', [ids]);
        return rows[0].count === 2 * count;
      });
      await until('everything has run', async () => (await stage.pool.query('select from drover.job')).rowCount === 0);
      for (const id of ids) {
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
