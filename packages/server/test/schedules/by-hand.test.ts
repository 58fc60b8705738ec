/** Occurrences that a person asks for, and the ledger that shows them. */
import { newId } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import type { TransactionRunner } from '../../src/db/database.js';
import { pruneOccurrences } from '../../src/lifecycle/prune.js';
import { backfillSchedule } from '../../src/schedules/backfill-schedule.js';
import { listOccurrences } from '../../src/schedules/list-occurrences.js';
import { pauseSchedule } from '../../src/schedules/pause-schedule.js';
import { triggerSchedule } from '../../src/schedules/trigger-schedule.js';
import { createScheduleBench } from './support/schedule-bench.js';

const bench = createScheduleBench();

const ID = newId();

describe('by hand (J7)', () => {
  it('a trigger fires once for an id, also of a paused schedule', async () => {
    await bench.put('s');
    await pauseSchedule(bench.db.bulk, 's', 'ada', undefined);
    const id = newId();
    const first = await triggerSchedule(bench.db.bulk, 's', id);
    expect(await triggerSchedule(bench.db.bulk, 's', id)).toBe(first);
    await Promise.all([triggerSchedule(bench.db.bulk, 's'), triggerSchedule(bench.db.bulk, 's')]);
    expect(await bench.jobs()).toHaveLength(3);
    expect((await listOccurrences(bench.db.reads, 's', { limit: 9 })).items.map(({ kind }) => kind)).toEqual(
      Array(3).fill('triggered'),
    );
    await expect(triggerSchedule(bench.db.bulk, 'none')).rejects.toThrow('there is no schedule none');
  });

  it('triggers at the same time are as many occurrences as there are ids', async () => {
    await bench.put('s');
    const ids = Array.from({ length: 60 }, () => newId());
    const times = await Promise.all(ids.map((id) => triggerSchedule(bench.db.bulk, 's', id)));
    expect(new Set(times).size).toBe(60);
    const again = await Promise.all(Array.from({ length: 60 }, () => triggerSchedule(bench.db.bulk, 's', ID)));
    expect(new Set(again).size).toBe(1);
    expect(await bench.ledger('s')).toHaveLength(61);
    expect(await bench.jobs()).toHaveLength(61);
  });

  it('a trigger that was made before waits for the standby', async () => {
    await bench.put('s');
    const id = newId();
    const statements: string[] = [];
    const { bulk } = bench.db;
    const db: TransactionRunner = {
      ...bulk,
      run(statement, values) {
        statements.push(statement.name);
        return bulk.run(statement, values);
      },
      runTexts(statement, values) {
        statements.push(statement.name);
        return bulk.runTexts(statement, values);
      },
    };
    await triggerSchedule(db, 's', id);
    expect(statements).not.toContain('replication_barrier');
    await triggerSchedule(db, 's', id);
    expect(statements.at(-1)).toBe('replication_barrier');
  });

  it('a backfill counts, then fires what has no job, then nothing more', async () => {
    await bench.put('s', { catchUp: 'last' });
    await bench.age('s', 4);
    await bench.fire();
    expect(await bench.ledger('s')).toEqual(['missed', 'missed', 'missed', 'fired']);
    const range = {
      from: new Date(Date.now() - 6 * 3_600_000).toISOString(),
      to: new Date(Date.now() + 3_600_000).toISOString(),
    };
    const expected = { occurrences: 6, already: 1, fired: 5 };
    expect(await backfillSchedule(bench.db.bulk, 's', { ...range, dryRun: true })).toEqual({
      ...expected,
      dryRun: true,
    });
    expect(await bench.jobs()).toHaveLength(1);
    expect(await backfillSchedule(bench.db.bulk, 's', { ...range, dryRun: false })).toEqual({
      ...expected,
      dryRun: false,
    });
    expect(await bench.jobs()).toHaveLength(6);
    expect(await backfillSchedule(bench.db.bulk, 's', { ...range, dryRun: false })).toMatchObject({
      already: 6,
      fired: 0,
    });
    const wide = { from: '2000-01-01T00:00:00.000Z', to: '2020-01-01T00:00:00.000Z', dryRun: true };
    await expect(backfillSchedule(bench.db.bulk, 's', wide)).rejects.toThrow('at most 10000 occurrences');
  });

  it('the ledger is read page by page and forgotten after its retention', async () => {
    await bench.put('s', { catchUp: 'all' });
    await bench.age('s', 5);
    await bench.fire();
    const first = await listOccurrences(bench.db.reads, 's', { limit: 3 });
    const second = await listOccurrences(bench.db.reads, 's', { limit: 3, cursor: first.nextCursor as string });
    expect(first.items).toHaveLength(3);
    expect(second).toMatchObject({ nextCursor: null });
    expect(new Set([...first.items, ...second.items].map(({ nominalAt }) => nominalAt)).size).toBe(5);
    await expect(listOccurrences(bench.db.reads, 's', { limit: 3, cursor: 'x' })).rejects.toThrow('cursor: expected');
    await bench.pool.query(`update drover.occurrence set decided_at = now() - interval '2 days'`);
    await pruneOccurrences(bench.db.reads, 86_400_000);
    expect(await bench.ledger('s')).toEqual([]);
  });
});
