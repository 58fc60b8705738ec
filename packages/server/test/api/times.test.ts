import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeUnguarded } from '../support/guard-moves.js';
import { register } from '../support/raw-worker.js';
import { type ApiBench, createApiBench } from './api-bench.js';

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench();
});
afterAll(() => api.close());

const LISTS = ['jobs', 'schedules', 'workers', 'servers', 'queues', 'stats', 'pauses'].map((list) => `/api/v1/${list}`);

/** The columns with times of the tables that lists read. */
const TIMES: Record<string, string[]> = {
  job: ['run_at', 'created_at', 'expires_at'],
  schedule: ['last_fired_at', 'paused_at', 'created_at', 'updated_at'],
  session: ['started_at', 'beat_at'],
  server: ['started_at'],
  pause: ['paused_at'],
};

test.each(['infinity', '-infinity', '294276-01-01'])(
  'every list answers while rows have the time %s, which no date can hold',
  async (time) => {
    await api.call('/api/v1/jobs', { method: 'POST', body: { type: 'a' } });
    const schedule = { every: '1d', job: { type: 'a' } };
    await api.call('/api/v1/schedules/s', { method: 'PUT', body: schedule });
    await api.call('/api/v1/schedules/s/pause', { method: 'POST', body: {} });
    await api.call('/api/v1/queues/other/pause', { method: 'POST', body: {} });
    const { worker } = await register(api.port, { sessionId: newId() });
    for (const [table, columns] of Object.entries(TIMES)) {
      const values = columns.map((column) => `${column} = '${time}'`).join(', ');
      await writeUnguarded(api.database.pool, `update drover.${table} set ${values}`);
    }
    const answers = await Promise.all([...LISTS, '/api/v1/schedules/s'].map((path) => api.call(path)));
    expect(answers.map(({ status, text }) => (status === 200 ? 200 : text))).toEqual(answers.map(() => 200));
    worker.terminate();
  },
);
