/**
 * Expected occurrences computed by other means: wall-clock times by cron-parser, offsets by luxon, and a rule for
 * each policy that looks at one wall-clock time alone instead of walking through the periods of a zone.
 */
import type { GapPolicy, RepeatPolicy, ScheduleSpec } from '@drover/protocol';
import { CronExpressionParser } from 'cron-parser';
import fc from 'fast-check';
import { IANAZone } from 'luxon';
import { describe, expect, it } from 'vitest';
import { parseCron } from '../../../src/schedules/timing/cron.js';
import { nextMatch } from '../../../src/schedules/timing/cron-match.js';
import { occurrencesOf, type TimingWithCalendars } from '../../../src/schedules/timing/occurrences.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** `DROVER_TEST_THOROUGH=1`: half a minute instead of ten seconds, and six times the cases. */
const THOROUGH = process.env.DROVER_TEST_THOROUGH ? 6 : 1;

/** Changes at midnight, half-hour changes, a lost day, abolished and suspended summer time, odd offsets, none at all. */
const ZONES = [
  ...[
    'Europe/Berlin',
    'America/New_York',
    'America/Santiago',
    'Australia/Lord_Howe',
    'Pacific/Apia',
    'Africa/Casablanca',
  ],
  ...[
    'America/Sao_Paulo',
    'Europe/Istanbul',
    'Asia/Tehran',
    'Asia/Beirut',
    'Africa/Cairo',
    'America/Havana',
    'Asia/Gaza',
  ],
  ...[
    'Pacific/Chatham',
    'Asia/Kathmandu',
    'America/St_Johns',
    'Asia/Tokyo',
    'Europe/Moscow',
    'Europe/Volgograd',
    'UTC',
  ],
  ...['Asia/Pyongyang', 'America/Caracas', 'Antarctica/Troll', 'Africa/Juba', 'America/Scoresbyt', 'Atlantic/Azores'],
].filter((name) => IANAZone.isValidZone(name));

const zone = fc.constantFrom(...ZONES);
const moment = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2040, 0) });
const gapPolicy = fc.constantFrom<GapPolicy>('skip', 'shift-forward', 'before');
const repeatPolicyGiven = fc.constantFrom<RepeatPolicy>('first', 'last', 'both');

function field(min: number, max: number): fc.Arbitrary<string> {
  const value = fc.integer({ min, max });
  const range = fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`);
  const step = fc.integer({ min: 1, max: Math.max(2, Math.floor(max / 2)) });
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant('*') },
    { weight: 3, arbitrary: value.map(String) },
    {
      weight: 1,
      arbitrary: fc.array(value, { minLength: 2, maxLength: 4 }).map((list) => [...new Set(list)].join(',')),
    },
    { weight: 1, arbitrary: range },
    { weight: 1, arbitrary: step.map((n) => `*/${n}`) },
    { weight: 1, arbitrary: fc.tuple(range, step).map(([r, n]) => `${r}/${n}`) },
  );
}

const dayOfMonth = fc.oneof({ weight: 9, arbitrary: field(1, 28) }, { weight: 1, arbitrary: fc.constant('L') });
const dayOfWeek = fc.oneof(
  { weight: 8, arbitrary: field(0, 6) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 6 }).map((day) => `${day}L`) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 1, max: 5 })).map(([d, n]) => `${d}#${n}`),
  },
);

/** One of both day fields is open: what both together mean is tested by itself. */
const pattern = fc
  .tuple(field(0, 59), field(0, 23), dayOfMonth, field(1, 12), dayOfWeek, fc.boolean(), fc.option(field(0, 59)))
  .map(([minute, hour, day, month, weekday, byDay, second]) =>
    [...(second === null ? [] : [second]), minute, hour, byDay ? day : '*', month, byDay ? '*' : weekday].join(' '),
  );

/** Wall-clock times at or after a moment, as cron-parser finds them. */
function* wallTimes(text: string, fromMs: number): Generator<number, never> {
  const parsed = CronExpressionParser.parse(text, { currentDate: new Date(fromMs - 1), tz: 'UTC' });
  for (;;) yield parsed.next().toDate().getTime();
}

const offsetsKnown = new Map<string, number>();

function luxonOffset(zoneName: string, ms: number): number {
  const key = `${zoneName} ${ms}`;
  const known = offsetsKnown.get(key);
  if (known !== undefined) return known;
  const offset = Math.round(IANAZone.create(zoneName).offset(ms) * 60_000);
  offsetsKnown.set(key, offset);
  return offset;
}

/** The moments that a wall-clock time becomes, by what luxon knows of the zone. */
function momentsOf(wall: number, zoneName: string, gap: GapPolicy, repeat: RepeatPolicy): number[] {
  const offset = (ms: number) => luxonOffset(zoneName, ms);
  const middle = Math.floor(wall / (6 * HOUR_MS)) * 6 * HOUR_MS;
  const offsets = new Set<number>();
  for (let hours = -42; hours <= 42; hours += 6) offsets.add(offset(middle + hours * HOUR_MS));
  const real = [...offsets]
    .map((o) => wall - o)
    .filter((ms) => offset(ms) === wall - ms)
    .sort((a, b) => a - b);
  if (real.length === 1) return real;
  if (real.length > 1) return repeat === 'both' ? real : [(repeat === 'first' ? real[0] : real.at(-1)) as number];
  if (gap === 'skip') return [];
  // in a gap, a time read with the offset before it lies after it, and the other way round
  for (const before of offsets) {
    for (const after of offsets) {
      if (before < after && offset(wall - before) === after && offset(wall - after) === before) {
        return [gap === 'shift-forward' ? wall - before : wall - after];
      }
    }
  }
  throw new Error(`no offsets for ${new Date(wall).toISOString()} in ${zoneName}`);
}

/** Beyond every offset and every gap, but for the day that Samoa left out. */
const slackOf = (zoneName: string) => (zoneName === 'Pacific/Apia' ? 40 : 18) * HOUR_MS;

function expectedAfter(
  text: string,
  zoneName: string,
  ms: number,
  gap: GapPolicy,
  repeat: RepeatPolicy,
  count: number,
): number[] {
  const slack = slackOf(zoneName);
  const found = new Set<number>();
  for (const wall of wallTimes(text, ms - slack)) {
    for (const one of momentsOf(wall, zoneName, gap, repeat)) if (one > ms) found.add(one);
    // no later wall-clock time can come before what has been found
    if (found.size >= count && wall > ([...found].sort((a, b) => a - b)[count - 1] as number) + slack) break;
  }
  return [...found].sort((a, b) => a - b).slice(0, count);
}

function times(
  spec: ScheduleSpec,
  timeZone: string,
  ms: number,
  count: number,
  gap: GapPolicy,
  repeat?: RepeatPolicy,
): number[] {
  const occurrences = occurrencesOf({ timing: { specs: [spec], timeZone, gap, repeat }, calendars: [] });
  const found: number[] = [];
  let last: number | undefined = ms;
  while (found.length < count) {
    last = occurrences.after(last);
    if (last === undefined) break;
    found.push(last);
  }
  return found;
}

const iso = (list: readonly number[]) => list.map((ms) => new Date(ms).toISOString().slice(0, 19));
const cron = (text: string): ScheduleSpec => ({ kind: 'cron', cron: text });

describe('wall-clock times (J7)', () => {
  it('are those of another library for random patterns and years', () => {
    fc.assert(
      fc.property(pattern, moment, (text, ms) => {
        const others = wallTimes(text, ms);
        const expected = [others.next().value, others.next().value, others.next().value];
        const found: number[] = [];
        for (let from = ms; found.length < 3; from = (found.at(-1) as number) + 1)
          found.push(nextMatch(parseCron(text), from) as number);
        expect(iso(found)).toEqual(iso(expected));
      }),
      { numRuns: 1500 * THOROUGH },
    );
  });
});

describe('occurrences in a time zone (J7)', () => {
  it('are those computed by other means for random patterns, zones, years and policies', () => {
    const withoutSeconds = fc.tuple(fc.integer({ min: 0, max: 59 }), field(0, 23), field(0, 6));
    const some = fc.oneof(
      withoutSeconds.map(([minute, hour, weekday]) => `${minute} ${hour} * * ${weekday}`),
      // those that meet a change of clocks in any week
      fc.tuple(fc.integer({ min: 0, max: 59 }), fc.integer({ min: 0, max: 4 })).map(([m, h]) => `${m} ${h} * * *`),
      fc.constantFrom('*/20 * * * *', '0 * * * *', '30 */2 * * *', '15 23,0 * * *'),
    );
    fc.assert(
      fc.property(some, zone, moment, gapPolicy, repeatPolicyGiven, (text, zoneName, ms, gap, repeat) => {
        const count = 3;
        const found = times(cron(text), zoneName, ms, count, gap, repeat);
        fc.pre(found.length > 0 && (found.at(-1) as number) - ms < 20 * DAY_MS);
        expect(iso(found)).toEqual(iso(expectedAfter(text, zoneName, ms, gap, repeat, count)));
      }),
      { numRuns: 500 * THOROUGH },
    );
  });

  it.each(ZONES)('are right around every change of clocks from 2000 to 2040 in %s', (zoneName) => {
    const luxonZone = IANAZone.create(zoneName);
    const changes: number[] = [];
    for (let ms = Date.UTC(2000, 0); ms < Date.UTC(2040, 0); ms += DAY_MS) {
      if (luxonZone.offset(ms) !== luxonZone.offset(ms + DAY_MS)) changes.push(ms);
    }
    // every kind of change is among them: a zone has a handful of rules in 40 years
    for (const change of changes.filter((_, index) => index % Math.ceil(40 / THOROUGH) === 0)) {
      for (const gap of ['skip', 'shift-forward', 'before'] as const) {
        for (const repeat of ['first', 'last', 'both'] as const) {
          const from = change - 2 * HOUR_MS;
          const found = times(cron('*/30 * * * *'), zoneName, from, 54, gap, repeat);
          expect(iso(found)).toEqual(iso(expectedAfter('*/30 * * * *', zoneName, from, gap, repeat, 54)));
        }
      }
    }
  });
});

describe('a schedule (J7, H5)', () => {
  const after = (
    timing: Partial<TimingWithCalendars['timing']>,
    from: string,
    count: number,
    calendarDates: string[] = [],
  ) => {
    const complete = { specs: [], timeZone: 'UTC', gap: 'shift-forward' as const, ...timing };
    const { after: next } = occurrencesOf({ timing: complete, calendars: [new Set(calendarDates)] });
    const found: number[] = [];
    for (let ms = next(Date.parse(from)); ms !== undefined && found.length < count; ms = next(ms)) found.push(ms);
    return iso(found);
  };

  it('runs every 90 minutes from its anchor, whenever it is asked', () => {
    const specs: ScheduleSpec[] = [{ kind: 'interval', every: 90 * 60_000, anchor: '2030-01-01T00:10:00.000Z' }];
    expect(after({ specs }, '2030-01-01T02:00:00Z', 3)).toEqual([
      '2030-01-01T03:10:00',
      '2030-01-01T04:40:00',
      '2030-01-01T06:10:00',
    ]);
    expect(after({ specs }, '2029-01-01T02:00:00Z', 1)).toEqual(['2030-01-01T00:10:00']);
  });

  it('joins several specs and counts a shared moment once', () => {
    const specs = [
      cron('0 12 * * *'),
      { kind: 'times' as const, at: ['2030-01-01T12:00:00.000Z', '2030-01-01T15:00:00.000Z'] },
    ];
    expect(after({ specs }, '2030-01-01T00:00:00Z', 3)).toEqual([
      '2030-01-01T12:00:00',
      '2030-01-01T15:00:00',
      '2030-01-02T12:00:00',
    ]);
  });

  it('leaves out excluded days of its own time zone, start and end included', () => {
    const timing = { specs: [cron('30 0 * * *')], timeZone: 'Asia/Tokyo', exclude: { dates: ['2030-01-02'] } };
    // 00:30 in Tokyo is 15:30 of the day before in UTC
    expect(after(timing, '2029-12-31T00:00:00Z', 2, ['2030-01-03'])).toEqual([
      '2029-12-31T15:30:00',
      '2030-01-03T15:30:00',
    ]);
    const bounds = { start: '2030-01-04T15:30:00.000Z', end: '2030-01-05T15:30:00.000Z' };
    expect(after({ ...timing, ...bounds }, '2029-12-31T00:00:00Z', 9)).toEqual([
      '2030-01-04T15:30:00',
      '2030-01-05T15:30:00',
    ]);
  });

  it('goes through a day that a country left out', () => {
    const apia = (gap: GapPolicy) =>
      after({ specs: [cron('0 9 * * *')], timeZone: 'Pacific/Apia', gap }, '2011-12-29T00:00:00Z', 3);
    // 30 December 2011 did not exist in Samoa
    expect(apia('skip')).toEqual(['2011-12-29T19:00:00', '2011-12-30T19:00:00', '2011-12-31T19:00:00']);
    expect(apia('shift-forward')).toEqual(apia('skip'));
  });

  it('fires an hourly pattern every hour of a day with 25, and a daily one once', () => {
    const berlin = (text: string, count: number) =>
      after({ specs: [cron(text)], timeZone: 'Europe/Berlin' }, '2030-10-26T23:30:00Z', count);
    expect(berlin('0 * * * *', 4)).toEqual([
      '2030-10-27T00:00:00',
      '2030-10-27T01:00:00',
      '2030-10-27T02:00:00',
      '2030-10-27T03:00:00',
    ]);
    expect(berlin('30 2 * * *', 2)).toEqual(['2030-10-27T00:30:00', '2030-10-28T01:30:00']);
  });
});
