import { describe, expect, it } from 'vitest';
import {
  MAX_JOBS_A_ROUND,
  MAX_OCCURRENCES_A_ROUND,
  MAX_ROWS_IN_A_ROW,
  planFiring,
  type ScheduleStatus,
} from '../../src/schedules/plan-firing.js';
import { createTimetable, type Definition } from '../../src/schedules/timing/timetable.js';

const MINUTE_MS = 60_000;
const NOON = Date.UTC(2030, 0, 1, 12);
const minutes = (count: number) => NOON + count * MINUTE_MS;

/** Every ten minutes; handled until noon unless said. */
function plan(more: Partial<Definition>, now: number, status: Partial<ScheduleStatus> = {}) {
  const definition: Definition = {
    specs: [{ kind: 'interval', every: 10 * MINUTE_MS, anchor: '1970-01-01T00:00:00.000Z' }],
    ...{ timeZone: 'UTC', gap: 'shift-forward', catchUp: 'last', catchUpWindow: 86_400_000, overlap: 'allow' },
    ...more,
  };
  const before: ScheduleStatus = {
    ...{ handledUntilMs: NOON, fired: 0, previousLives: false, waitingMs: undefined, failuresInARow: 0 },
    ...status,
  };
  return planFiring(createTimetable('s', definition, []), before, now);
}

const summary = ({ occurrences }: ReturnType<typeof plan>) =>
  occurrences.map(({ nominalMs, state, reason }) => `${(nominalMs - NOON) / MINUTE_MS} ${reason ?? state}`);

describe('due occurrences (J7)', () => {
  it('one on time is fired, and the next one is known', () => {
    const planned = plan({}, minutes(10) + 50);
    expect(summary(planned)).toEqual(['10 fired']);
    expect(planned).toMatchObject({
      handledUntilMs: minutes(10),
      next: { nominalMs: minutes(20), dueMs: minutes(20) },
    });
  });

  it.each([
    ['none', ['10 missed', '20 missed', '30 missed']],
    ['last', ['10 missed', '20 missed', '30 fired']],
    ['all', ['10 fired', '20 fired', '30 fired']],
  ] as const)('after a downtime, catching up on %s', (catchUp, expected) => {
    expect(summary(plan({ catchUp }, minutes(35)))).toEqual(expected);
  });

  it('an occurrence on time is fired, whatever the catch-up policy says', () => {
    expect(summary(plan({ catchUp: 'none' }, minutes(20) + 1000))).toEqual(['10 missed', '20 fired']);
    expect(summary(plan({ catchUp: 'last' }, minutes(20) + 1000))).toEqual(['10 missed', '20 fired']);
  });

  it('what is older than the window is not caught up on', () => {
    expect(summary(plan({ catchUp: 'all', catchUpWindow: 20 * MINUTE_MS }, minutes(35)))).toEqual([
      '10 missed',
      '20 fired',
      '30 fired',
    ]);
  });

  it('jobs of a long downtime are made in bounded rounds that lose nothing', () => {
    const now = minutes(10 * 2500);
    const policy = { catchUp: 'all', catchUpWindow: 90 * 86_400_000 } as const;
    const first = plan(policy, now);
    expect(first.occurrences).toHaveLength(MAX_JOBS_A_ROUND);
    const second = plan(policy, now, { handledUntilMs: first.handledUntilMs });
    expect(second.occurrences[0]?.nominalMs).toBe((first.occurrences.at(-1)?.nominalMs as number) + 10 * MINUTE_MS);
  });

  it('up to a limit those left out have a row each, beyond it one together', () => {
    const few = plan({ catchUp: 'none' }, minutes(10 * MAX_ROWS_IN_A_ROW + 5));
    expect(few.occurrences).toHaveLength(MAX_ROWS_IN_A_ROW);
    const count = MAX_ROWS_IN_A_ROW + 1;
    const many = plan({ catchUp: 'last' }, minutes(10 * count + 15));
    expect(many.occurrences).toEqual([
      {
        ...{ nominalMs: minutes(10), dueMs: minutes(10), state: 'skipped', reason: 'missed' },
        run: { lastMs: minutes(10 * count), count },
      },
      { nominalMs: minutes(10 * (count + 1)), dueMs: minutes(10 * (count + 1)), state: 'fired' },
    ]);
  });

  it('a run longer than a round continues in the next', () => {
    const now = minutes(10 * (MAX_OCCURRENCES_A_ROUND + 500) + 5);
    const first = plan({ catchUp: 'none' }, now);
    expect(first.occurrences).toMatchObject([{ run: { count: MAX_OCCURRENCES_A_ROUND } }]);
    const second = plan({ catchUp: 'none' }, now, { handledUntilMs: first.handledUntilMs });
    expect(second.occurrences).toMatchObject([
      { nominalMs: first.handledUntilMs + 10 * MINUTE_MS, run: { count: 500 } },
    ]);
  });

  it('those that a later one replaced are a run, but for the one that has its row already', () => {
    const status = { previousLives: true, waitingMs: NOON };
    const planned = plan(
      { overlap: 'cancel-previous', catchUp: 'all', catchUpWindow: 90 * 86_400_000 },
      minutes(10 * 300),
      status,
    );
    expect(planned.occurrences).toMatchObject([
      { nominalMs: NOON, reason: 'replaced' },
      { nominalMs: minutes(10), reason: 'replaced', run: { lastMs: minutes(2990), count: 299 } },
      { nominalMs: minutes(3000), state: 'waiting' },
    ]);
    expect(planned.occurrences[0]).not.toHaveProperty('run');
  });

  it.each([
    ['allow', '10 fired', undefined],
    ['skip', '10 overlap', undefined],
    ['queue-one', '10 waiting', minutes(10)],
    ['cancel-previous', '10 waiting', minutes(10)],
  ] as const)('while the job before is unfinished, with the policy %s', (overlap, expected, waitingMs) => {
    const planned = plan({ overlap }, minutes(10), { previousLives: true });
    expect(summary(planned)).toEqual([expected]);
    expect(planned.waitingMs).toBe(waitingMs);
  });

  it('one waits at most; a later one is left out or takes its place', () => {
    const status = { previousLives: true, waitingMs: NOON };
    expect(summary(plan({ overlap: 'queue-one' }, minutes(10), status))).toEqual(['10 overlap']);
    const replaced = plan({ overlap: 'cancel-previous' }, minutes(10), status);
    expect(summary(replaced)).toEqual(['0 replaced', '10 waiting']);
    expect(replaced.waitingMs).toBe(minutes(10));
  });

  it('ends after so many jobs, the one that waits included', () => {
    const planned = plan({ maxOccurrences: 2, catchUp: 'all' }, minutes(35));
    expect(summary(planned)).toEqual(['10 fired', '20 fired']);
    expect(planned.next).toBeUndefined();
    const waiting = plan({ maxOccurrences: 2, overlap: 'queue-one' }, minutes(10), { fired: 1, previousLives: true });
    expect(waiting.next).toBeUndefined();
  });

  it('pauses itself after failures in a row', () => {
    const planned = plan({ pauseAfterFailures: 3 }, minutes(10), { failuresInARow: 3 });
    expect(summary(planned)).toEqual(['10 failures']);
    expect(planned.pauseNote).toBe('the last 3 jobs of this schedule failed');
    expect(plan({ pauseAfterFailures: 3 }, minutes(10), { failuresInARow: 2 }).pauseNote).toBeUndefined();
  });
});
