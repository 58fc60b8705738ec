import { describe, expect, it } from 'vitest';
import { defineJob } from '../../src/index.js';
import { enqueueManyWith, enqueueWith } from '../../src/postgres/index.js';

const mail = defineJob<{ to: string }>({ type: 'mail', timeout: '30s' });

function recordedQueries() {
  const queries: { sql: string; params: unknown[] }[] = [];
  const query = async (sql: string, params: unknown[]) => {
    queries.push({ sql, params });
  };
  return { queries, query };
}

describe('enqueueWith', () => {
  it('calls the SQL function with the type, the payload and the parsed options', async () => {
    const { queries, query } = recordedQueries();
    const job = await enqueueWith(query, mail, { to: 'a' }, { delay: '1m', runAt: undefined });
    expect(queries[0]?.sql).toContain('drover.enqueue(');
    const [type, payload, options] = queries[0]?.params ?? [];
    expect(type).toBe('mail');
    expect(JSON.parse(String(payload))).toEqual({ to: 'a' });
    expect(JSON.parse(String(options))).toEqual({ id: job.id, complete: true, timeout: 30_000, delay: 60_000 });
  });

  it('adds many with one statement', async () => {
    const { queries, query } = recordedQueries();
    const jobs = await enqueueManyWith(query, mail, [{ to: 'a' }, { to: 'b' }]);
    expect(queries).toHaveLength(1);
    expect(JSON.parse(String(queries[0]?.params[0]))).toEqual([
      { id: jobs[0]?.id, type: 'mail', complete: true, timeout: 30_000, payload: { to: 'a' } },
      { id: jobs[1]?.id, type: 'mail', complete: true, timeout: 30_000, payload: { to: 'b' } },
    ]);
  });
});
