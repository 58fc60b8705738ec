import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CronError, parseCron } from '../../../src/schedules/timing/cron.js';
import { nextMatch } from '../../../src/schedules/timing/cron-match.js';
import { describeSchedule } from '../../../src/schedules/timing/describe.js';
import { previewSchedule } from '../../../src/schedules/timing/preview.js';
import { createTimetable, type Definition } from '../../../src/schedules/timing/timetable.js';

const day = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString().slice(0, 10));
const from = (pattern: string, date: string) => day(nextMatch(parseCron(pattern), Date.parse(date)));
const definition = (cron: string, more: Partial<Definition> = {}): Definition => ({
  specs: [{ kind: 'cron', cron }],
  ...{ timeZone: 'UTC', gap: 'shift-forward', catchUp: 'last', catchUpWindow: 86_400_000, overlap: 'allow' },
  ...more,
});

describe('a cron pattern (J7)', () => {
  it.each([
    ['0 0 L * *', '2030-02-02', '2030-02-28'],
    ['0 0 L-3 * *', '2030-02-02', '2030-02-25'],
    // 15 June 2030 is a Saturday, 16 June a Sunday
    ['0 0 15W * *', '2030-06-02', '2030-06-14'],
    ['0 0 16W * *', '2030-06-02', '2030-06-17'],
    // 1 June 2030 is a Saturday: not in May
    ['0 0 1W * *', '2030-05-20', '2030-06-03'],
    // 30 June 2030 is a Sunday: not in July
    ['0 0 LW * *', '2030-06-02', '2030-06-28'],
    ['0 0 31W * *', '2030-06-01', '2030-07-31'],
    ['0 0 * * 5L', '2030-06-01', '2030-06-28'],
    ['0 0 * * FRI#2', '2030-06-01', '2030-06-14'],
    ['0 0 * * 7', '2030-06-03', '2030-06-09'],
    ['0 0 ? * MON', '2030-06-01', '2030-06-03'],
    ['0 0 13 * FRI', '2030-06-01', '2030-06-07'],
    ['0 0 29 2 ?', '2030-06-01', '2032-02-29'],
    ['@yearly', '2030-06-01', '2031-01-01'],
    ['0 0 5/10 * *', '2030-06-06', '2030-06-15'],
  ])('%s after %s is %s', (pattern, after, expected) => {
    expect(from(pattern, after)).toBe(expected);
  });

  it('finds the nearest weekday as the definition says, for every day of 40 years', () => {
    for (const wanted of [1, 2, 15, 28, 30, 31]) {
      let last = Date.UTC(2000, 0);
      for (let month = 0; month < 480; month += 7) {
        const days = new Date(Date.UTC(2000, month + 1, 0)).getUTCDate();
        if (wanted > days) continue;
        const weekdays = Array.from({ length: days }, (_, index) => Date.UTC(2000, month, index + 1)).filter(
          (ms) => new Date(ms).getUTCDay() % 6 !== 0,
        );
        const target = Date.UTC(2000, month, wanted);
        const nearest = weekdays.sort((a, b) => Math.abs(a - target) - Math.abs(b - target))[0];
        last = nextMatch(parseCron(`0 0 ${wanted}W * *`), Date.UTC(2000, month, 1)) as number;
        expect(day(last)).toBe(day(nearest));
      }
    }
  });

  it.each([
    ['* * * *', 'expected 5 fields'],
    ['*/0 * * * *', 'minute: expected a number from 1 to 59, got 0'],
    ['5-1 * * * *', 'minute: expected a range that goes up'],
    ['0-99999999 * * * *', 'minute: expected a number from 0 to 59'],
    ['60 * * * *', 'minute: expected a number from 0 to 59, got 60'],
    ['0 24 * * *', 'hour: expected a number from 0 to 23, got 24'],
    ['0 0 * * MOO', 'day of week: expected a number from 0 to 7 or a name such as MON, got MOO'],
    ['0 0 * * 1#6', 'day of week: expected a number from 1 to 5, got 6'],
    ['1,,2 * * * *', 'expected a value between the commas'],
    ['? * * * *', 'expected ? only in a field of days'],
    ['@reboot', 'expected one of @yearly'],
  ])('%s is refused: %s', (pattern, message) => {
    expect(() => parseCron(pattern)).toThrow(message);
  });

  it('that never comes is found out in bounded time, as is anything else', () => {
    for (const pattern of ['0 0 30 2 *', '0 0 31 4,6 *', '0 0 31W 2 *', '* * * * * 0#5', '0 0 L-30 2 *']) {
      const began = performance.now();
      const found = nextMatch(parseCron(pattern), Date.UTC(2030, 0));
      if (pattern !== '* * * * * 0#5') expect(found).toBeUndefined();
      expect(performance.now() - began).toBeLessThan(1000);
    }
    const text = fc.string({ unit: fc.constantFrom(...'0123456789*/,-#LW? '.split('')), maxLength: 256 });
    fc.assert(
      fc.property(text, (pattern) => {
        try {
          nextMatch(parseCron(pattern), Date.UTC(2030, 0));
        } catch (error) {
          expect(error).toBeInstanceOf(CronError);
        }
      }),
    );
  });
});

describe('the words for a schedule (J7)', () => {
  it.each([
    ['30 9 * * MON-FRI', 'at 09:30 on Monday to Friday, UTC'],
    ['@hourly', 'every hour, UTC'],
    ['*/15 * * * *', 'every 15 minutes, UTC'],
    ['0 0 1,15 * *', 'at 00:00 on day 1 and 15 of the month, UTC'],
    ['0 12 LW 3 *', 'at 12:00 on the last weekday of the month in March, UTC'],
    ['0 8 * * 1#1', 'at 08:00 on the first Monday, UTC'],
    ['*/10 * * * * *', 'every 10 seconds of every minute, UTC'],
    ['0 0 13 * FRI', 'at 00:00 on day 13 of the month or on Friday, UTC'],
  ])('%s is "%s"', (pattern, text) => {
    expect(describeSchedule(definition(pattern))).toBe(text);
  });

  it('describe intervals, times and exclusions', () => {
    const specs: Definition['specs'] = [
      { kind: 'interval', every: 5_400_000, anchor: '1970-01-01T00:00:00.000Z' },
      { kind: 'times', at: ['2030-01-01T00:00:00.000Z'] },
    ];
    const exclude = { dates: ['2030-12-25'], calendars: ['bank-holidays'] };
    expect(describeSchedule({ specs, timeZone: 'UTC', exclude })).toBe(
      'every 90m; and once at 2030-01-01T00:00:00.000Z, except 2030-12-25 and the days of bank-holidays',
    );
  });
});

describe('a preview (J7)', () => {
  const preview = (more: Partial<Definition>, after: string) =>
    previewSchedule(
      createTimetable('s', definition('30 2 * * *', { timeZone: 'Europe/Berlin', ...more }), []),
      Date.parse(after),
      2,
    );

  it('notes what a change of clocks does', () => {
    expect(preview({}, '2030-03-30T12:00:00Z').occurrences[0]).toMatchObject({
      at: '2030-03-31T01:30:00.000Z',
      local: '2030-03-31T03:30:00+02:00',
      note: '02:30 does not exist on this day: clocks go forward; shifted',
    });
    expect(preview({ gap: 'before' }, '2030-03-30T12:00:00Z').occurrences[0]).toMatchObject({
      local: '2030-03-31T01:30:00+01:00',
      note: '02:30 does not exist on this day: clocks go forward; moved before the change',
    });
    expect(preview({ repeat: 'both' }, '2030-10-26T12:00:00Z').occurrences.map(({ note }) => note)).toEqual([
      '02:30 comes twice on this day: clocks go back; the first of the two',
      '02:30 comes twice on this day: clocks go back; the second of the two',
    ]);
    expect(preview({}, '2030-06-01T12:00:00Z').occurrences[0]?.note).toBeNull();
  });

  it('shows the due time with spread and jitter, always the same', () => {
    const [first, again] = [1, 2].map(
      () => preview({ spread: 60_000, jitter: 1000 }, '2030-06-01T12:00:00Z').occurrences[0],
    );
    expect(first).toEqual(again);
    const delay = Date.parse(first?.dueAt ?? '') - Date.parse(first?.at ?? '');
    expect(delay).toBeGreaterThan(0);
    expect(delay).toBeLessThan(61_000);
  });
});
