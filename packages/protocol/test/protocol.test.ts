import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ALL_STATES,
  type Backoff,
  backoffDelayMs,
  backoffSchema,
  createIdGenerator,
  DEFAULT_BACKOFF,
  DroverError,
  durationSchema,
  ERRORS,
  FINISHED_STATES,
  formatDuration,
  isErrorCode,
  isFinished,
  isLegalMove,
  isUuid,
  MOVES,
  nearest,
  newJobSchema,
  parseDuration,
  ROUTES,
  statesBefore,
  UNFINISHED_STATES,
} from '../src/index.js';

describe('the state machine', () => {
  test('every state is either finished or unfinished, and every unfinished one can be left', () => {
    expect([...FINISHED_STATES, ...UNFINISHED_STATES].sort()).toEqual([...ALL_STATES].sort());
    for (const state of UNFINISHED_STATES) expect(ALL_STATES.some((to) => isLegalMove(state, to))).toBe(true);
  });

  test('a succeeded job is never left; other endings only by a retry', () => {
    for (const to of ALL_STATES) expect(isLegalMove('succeeded', to)).toBe(false);
    for (const from of FINISHED_STATES) {
      const verbs = Object.entries(MOVES).filter(([, move]) => (move.from as readonly string[]).includes(from));
      expect(verbs.map(([verb]) => verb)).toEqual(from === 'succeeded' ? [] : ['retry']);
    }
  });

  test('every state can be reached from a new job, and every unfinished one can end', () => {
    const reach = (start: readonly (keyof typeof seen | 'new')[]) => {
      const found = new Set<string>(start);
      for (let size = -1; size !== found.size; ) {
        size = found.size;
        for (const from of [...found]) {
          for (const to of ALL_STATES) if (isLegalMove(from as 'new', to)) found.add(to);
        }
      }
      return found;
    };
    const seen = Object.fromEntries(ALL_STATES.map((state) => [state, true])) as Record<
      (typeof ALL_STATES)[number],
      true
    >;
    expect(ALL_STATES.every((state) => reach(['new']).has(state))).toBe(true);
    for (const state of UNFINISHED_STATES)
      expect([...reach([state])].some((to) => isFinished(to as 'ready'))).toBe(true);
  });

  test('a claim starts from ready alone', () => {
    expect(statesBefore('claim')).toEqual(['ready']);
  });
});

describe('durations', () => {
  test.each([
    ['250ms', 250],
    ['30s', 30_000],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['3d', 259_200_000],
    ['1.5s', 1500],
    [42, 42],
    ['0s', 0],
  ])('%s is %d milliseconds', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  test.each([
    '',
    '5',
    's',
    '-1s',
    '5 s',
    '1w',
    '1e3s',
    'NaNs',
    '99999999999d',
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    null,
    {},
  ])('%j is none, and the error says what is expected', (bad) => {
    expect(parseDuration(bad)).toBeUndefined();
    expect(durationSchema.safeParse(bad).error?.issues[0]?.message).toContain('expected a duration');
  });

  test('writing and reading gives the same', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 1e11 }), (ms) => parseDuration(formatDuration(ms)) === ms));
  });
});

describe('back-off', () => {
  test('exponential doubles up to its limit', () => {
    const plain: Backoff = { ...DEFAULT_BACKOFF, jitter: 0, max: 10_000 } as Backoff;
    expect([1, 2, 3, 4, 5, 99].map((attempt) => backoffDelayMs(plain, attempt, 0))).toEqual([
      1000, 2000, 4000, 8000, 10_000, 10_000,
    ]);
  });

  test('a list ends with its last delay, fixed stays', () => {
    const list: Backoff = { kind: 'list', delays: [1, 5, 9], jitter: 0 };
    expect([1, 2, 3, 4].map((attempt) => backoffDelayMs(list, attempt, 0.5))).toEqual([1, 5, 9, 9]);
    expect(backoffDelayMs({ kind: 'fixed', delay: 7, jitter: 0 }, 3, 0.9)).toBe(7);
  });

  test('jitter stays inside its share, and nothing makes a delay negative or endless', () => {
    const policy = fc.record({
      kind: fc.constant('exponential' as const),
      base: fc.integer({ min: 0, max: 1e9 }),
      factor: fc.double({ min: 1, max: 10, noNaN: true }),
      max: fc.integer({ min: 0, max: 1e9 }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(
        policy,
        fc.integer({ min: 1, max: 1000 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (backoff, attempt, random) => {
          const delay = backoffDelayMs(backoff, attempt, random);
          const plain = backoffDelayMs({ ...backoff, jitter: 0 }, attempt, 0);
          expect(delay).toBeGreaterThanOrEqual(Math.floor(plain * (1 - backoff.jitter)) - 1);
          expect(delay).toBeLessThanOrEqual(Math.ceil(plain * (1 + backoff.jitter)) + 1);
        },
      ),
    );
  });

  test('a base of nothing stays nothing, whatever the attempt', () => {
    expect(backoffDelayMs({ kind: 'exponential', base: 0, factor: 10, max: 5, jitter: 0.5 }, 1000, 0.5)).toBe(0);
  });

  test('defaults are filled in, and unknown kinds and fields are refused', () => {
    expect(backoffSchema.parse({ kind: 'exponential' })).toEqual(DEFAULT_BACKOFF);
    for (const bad of [
      {},
      { kind: 'linear' },
      { kind: 'fixed' },
      { kind: 'fixed', delay: '1s', x: 1 },
      { kind: 'list', delays: [] },
    ]) {
      expect(backoffSchema.safeParse(bad).success).toBe(false);
    }
  });
});

describe('ids', () => {
  test('ids of one process always increase, even if the clock stops or goes back', () => {
    const times = [1000, 1000, 999, 5, 1001, 1001];
    let turn = 0;
    const make = createIdGenerator(() => times[turn++ % times.length] as number);
    const ids = Array.from({ length: 20_000 }, make);
    expect(ids.every(isUuid)).toBe(true);
    expect([...ids].sort()).toEqual(ids);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.every((id) => id[14] === '7' && '89ab'.includes(id[19] as string))).toBe(true);
  });

  test('are right at the beginning of time, and before it', () => {
    for (const moment of [0, -1]) {
      const make = createIdGenerator(() => moment);
      const ids = Array.from({ length: 5000 }, make);
      expect(ids.every(isUuid)).toBe(true);
      expect([...ids].sort()).toEqual(ids);
    }
  });
});

describe('jobs', () => {
  test.each([
    [{}, 'type'],
    [{ type: 'a b' }, 'type'],
    [{ type: 'x'.repeat(129) }, 'type'],
    [{ type: 'a', id: '7' }, 'id'],
    [{ type: 'a', priority: 1.5 }, 'priority'],
    [{ type: 'a', priority: 1001 }, 'priority'],
    [{ type: 'a', maxAttempts: 0 }, 'maxAttempts'],
    [{ type: 'a', delay: '1s', runAt: '2030-01-01T00:00:00Z' }, 'runAt'],
    [{ type: 'a', runAt: 'tomorrow' }, 'runAt'],
    [{ type: 'a', runAt: '2030-01-01' }, 'runAt'],
    [{ type: 'a', tags: ['a\u0000'] }, 'tags'],
    [{ type: 'a', tags: Array(21).fill('t') }, 'tags'],
    [{ type: 'a', timeout: 'soon' }, 'timeout'],
  ])('%j is refused for its %s', (job, field) => {
    const { error } = newJobSchema.safeParse(job);
    expect(error?.issues.map((issue) => issue.path[0])).toContain(field);
  });

  test('an unknown field is refused', () => {
    expect(newJobSchema.safeParse({ type: 'a', prio: 1 }).error?.issues[0]).toMatchObject({
      code: 'unrecognized_keys',
    });
  });
});

test('every error has a status of errors, and says itself in the form of the API', () => {
  for (const { status } of Object.values(ERRORS)) expect(status).toBeGreaterThanOrEqual(400);
  expect(isErrorCode('overloaded')).toBe(true);
  expect(isErrorCode('constructor')).toBe(false);
  const error = new DroverError('overloaded', 'too much', { limit: 1 });
  expect(error.toBody()).toEqual({ error: { code: 'overloaded', message: 'too much', details: { limit: 1 } } });
  expect([error.status, error.retryable]).toEqual([429, true]);
});

test('no two routes have the same method and path', () => {
  const keys = Object.values(ROUTES).map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, ':')}`);
  expect(new Set(keys).size).toBe(keys.length);
});

test('the nearest known word is suggested, and none that is far', () => {
  expect(nearest('maxAttemps', ['maxAttempts', 'timeout'])).toBe('maxAttempts');
  expect(nearest('zzzzzz', ['maxAttempts', 'timeout'])).toBeUndefined();
});
