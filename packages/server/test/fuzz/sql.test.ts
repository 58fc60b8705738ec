/** Arguments of hostile callers for the SQL functions that add jobs. */
import { newJobSchema } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FUZZ_TIMEOUT_MS, fuzz, hostileText, inputOf } from '../../../../test/support/hostile-input.js';
import { type ApiBench, createApiBench } from '../api/api-bench.js';

let bench: ApiBench;
const problems: string[] = [];
beforeAll(async () => {
  bench = await createApiBench({}, (line) => problems.push(line));
});
afterAll(() => bench.close());

/** Classes of errors that a caller causes: values, constraints, and the limits of PostgreSQL's own parser. */
const CALLERS_FAULT = /^(22|23|54)/;

const job = inputOf(newJobSchema);
const text = fc.oneof(
  { weight: 6, arbitrary: job.map((value) => JSON.stringify(value) ?? '') },
  { weight: 1, arbitrary: hostileText },
);

async function run(statement: string, values: unknown[]): Promise<string | undefined> {
  try {
    await bench.database.pool.query(statement, values);
    return undefined;
  } catch (error) {
    const { code = 'none', message } = error as { code?: string; message: string };
    return CALLERS_FAULT.test(code) ? undefined : `${code} ${message}`;
  }
}

test(
  'whatever a caller in SQL sends, it is refused as a fault of the caller, or the job is like any other',
  async () => {
    const property = fc.asyncProperty(fc.array(text, { maxLength: 4 }), text, text, async (jobs, payload, options) => {
      const failures = await Promise.all([
        run('select drover.enqueue_many($1)', [`[${jobs.join(',')}]`]),
        run('select drover.enqueue($1, $2, $3)', ['by-sql', payload, options]),
        run('select drover.enqueue($1)', [payload.slice(0, 300)]),
      ]);
      expect(failures.filter((failure) => failure !== undefined)).toEqual([]);
      expect(problems).toEqual([]);
    });
    await fuzz(property);
    expect((await bench.call('/api/v1/jobs?limit=1000&include=payload')).status).toBe(200);
    expect((await bench.call('/api/v1/queues')).status).toBe(200);
    expect((await bench.call('/api/v1/jobs', { method: 'POST', body: { type: 'honest' } })).status).toBe(201);
  },
  FUZZ_TIMEOUT_MS,
);
