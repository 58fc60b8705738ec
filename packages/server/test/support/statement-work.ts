/** What a statement makes PostgreSQL do, counted in rows: timings depend on the machine, these do not. */
import pg from 'pg';
import type { Runner } from '../../src/db/database.js';
import type { Statement } from '../../src/db/statement.js';

/** Rows read from tables, and rows that were looked at for nothing. */
export type Work = { statement: string; fetched: number; wasted: number };

/** Runs what it is given, and before that, in a transaction that is rolled back, sees what its kept plan takes. */
export function watch(runner: Runner): { runner: Runner; seen: Work[] } {
  const seen: Work[] = [];
  const plain = <Row extends object>(text: string, values: unknown[] = []) =>
    runner.run<Row>({ name: '', text }, values);
  const look = async (statement: Statement, values: unknown[] = []) => {
    const parameters = values.length === 0 ? '' : `(${values.map(literal).join(', ')})`;
    await plain('begin');
    try {
      const before = await fetchedRows();
      const [row] = await plain<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `explain (analyze, format json) execute ${statement.name}${parameters}`,
      );
      const fetched = (await fetchedRows()) - before;
      const { Plan: plan } = (row as NonNullable<typeof row>)['QUERY PLAN'][0];
      seen.push({ statement: statement.name, fetched, wasted: wastedIn(plan) });
    } finally {
      await plain('rollback');
    }
  };
  const fetchedRows = async () => {
    const [sums] = await plain<{ rows: number }>(
      `select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as rows
       from pg_stat_xact_user_tables where schemaname = 'drover'`,
    );
    return sums?.rows ?? 0;
  };
  return {
    seen,
    runner: {
      async run(statement, values) {
        await look(statement, values);
        return runner.run(statement, values);
      },
      async runTexts(statement, values) {
        await look(statement, [...values]);
        return runner.runTexts(statement, values);
      },
      copyIn: (text, data) => runner.copyIn(text, data),
    },
  };
}

type PlanNode = {
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: PlanNode[];
};

function wastedIn(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0);
  return (node.Plans ?? []).reduce((sum, child) => sum + wastedIn(child), removed * node['Actual Loops']);
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  return pg.escapeLiteral(Array.isArray(value) ? `{${value.join(',')}}` : String(value));
}
