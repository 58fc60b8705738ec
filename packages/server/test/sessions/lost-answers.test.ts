/** What is acknowledged after an answer was lost: only what a standby has too, whichever try has written it. */
import { newId, type Outcome } from '@drover/protocol';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Runner } from '../../src/db/database.js';
import { DatabaseError } from '../../src/db/database-error.js';
import { createOutcomes } from '../../src/sessions/outcomes.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';

/** Waits for the standby. */
const BARRIER = 'replication_barrier';

let bench: LifecycleBench;
beforeAll(async () => {
  bench = await createLifecycleBench();
});
afterAll(() => bench.close());

/** Outcomes whose first statements are executed and then answered with these errors, and the names of all statements. */
function createBrokenOutcomes(...errors: Error[]) {
  const statements: string[] = [];
  const { control } = bench.db;
  const db: Runner = {
    ...control,
    async runTexts(statement, values) {
      statements.push(statement.name);
      const rows = await control.runTexts(statement, values);
      const error = errors.shift();
      if (error) throw error;
      return rows;
    },
  };
  const outcomes = createOutcomes({
    ...{ db, serverId: SERVER_ID, logger: pino({ level: 'silent' }), signal: new AbortController().signal },
    publish() {},
  });
  return { outcomes, statements };
}

const lostAnswer = () => new DatabaseError('unknown', 'no answer');

async function succeeded(): Promise<Outcome> {
  const { id, fence } = await bench.running();
  return { id, fence, kind: 'succeeded', runMs: 1 };
}

test('an outcome that is written at once needs no barrier', async () => {
  const { outcomes, statements } = createBrokenOutcomes();
  expect(await outcomes.report([await succeeded()])).toEqual(new Set());
  expect(statements).toEqual(['complete']);
});

test('one that an earlier try has written waits for the standby', async () => {
  const { outcomes, statements } = createBrokenOutcomes(lostAnswer());
  await outcomes.report([await succeeded()]);
  expect(statements).toEqual(['complete', 'complete', BARRIER]);
});

test('also if another server has written it', async () => {
  const outcome = await succeeded();
  await createBrokenOutcomes().outcomes.report([outcome]);
  const { outcomes, statements } = createBrokenOutcomes();
  expect(await outcomes.report([outcome])).toEqual(new Set([outcome.id]));
  expect(statements).toEqual(['complete', BARRIER]);
});

test('also if another outcome of its batch is refused afterwards', async () => {
  const { id, fence } = await bench.running();
  const error = { name: 'Error', message: 'no luck' };
  const refused: Outcome = { id, fence, kind: 'failed', runMs: 1, error, retryInMs: 1e300 };
  const { outcomes, statements } = createBrokenOutcomes(lostAnswer());
  await outcomes.report([await succeeded(), refused]);
  // again both, then each alone, then the refused one as a failure for good
  expect(statements).toEqual(['complete', 'complete', 'fail', 'complete', BARRIER, 'fail', 'fail']);
  expect(await bench.row(id)).toMatchObject({ state: 'failed', error: { code: 'outcome_refused' } });
});

test('an unknown id is acknowledged like any other outcome that changes nothing', async () => {
  const { outcomes, statements } = createBrokenOutcomes();
  const id = newId();
  expect(await outcomes.report([{ id, fence: 1, kind: 'released' }])).toEqual(new Set([id]));
  expect(statements).toEqual(['release', BARRIER]);
});
