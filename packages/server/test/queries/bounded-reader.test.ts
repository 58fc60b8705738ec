import { describe, expect, test } from 'vitest';
import { createBoundedReader } from '../../src/queries/bounded-reader.js';
import { createFinishRate } from '../../src/queries/finish-rate.js';

/** Something to read that costs what we say, on a clock that only moves when we say so. */
function costly(costMs: number, rows: number) {
  let nowMs = 0;
  let reads = 0;
  const read = createBoundedReader({
    now: () => nowMs,
    read: async () => {
      nowMs += costMs;
      reads += 1;
      return { value: reads, rows };
    },
  });
  return { read, pass: (ms: number) => (nowMs += ms) };
}

describe('a bounded reader', () => {
  test('reads small results again for every caller', async () => {
    const { read } = costly(5, 10);
    expect([await read(), await read(), await read()]).toEqual([1, 2, 3]);
  });

  test('spends at most a hundredth of the time on what is large', async () => {
    const { read, pass } = costly(200, 1_000_000);
    expect(await read()).toBe(1);
    pass(19_999);
    expect(await read()).toBe(1);
    pass(1);
    expect(await read()).toBe(2);
    pass(1000);
    expect(await read()).toBe(2);
  });

  test('counts few rows that take long as large: a table may be mostly dead rows', async () => {
    const { read } = costly(100, 1);
    expect([await read(), await read()]).toEqual([1, 1]);
  });

  test('has one read under way, however many ask', async () => {
    const { read } = costly(5, 10);
    expect(await Promise.all([read(), read(), read()])).toEqual([1, 1, 1]);
  });

  test('forgets a read that failed', async () => {
    let fail = true;
    const read = createBoundedReader({
      read: async () => {
        if (fail) throw new Error('away');
        return { value: 'there', rows: 1 };
      },
    });
    await expect(read()).rejects.toThrow('away');
    fail = false;
    expect(await read()).toBe('there');
  });
});

describe('the finish rate', () => {
  test('is the growth since an earlier reading', () => {
    let nowMs = 0;
    const rate = createFinishRate(() => nowMs);
    expect(rate(1000)).toBeUndefined();
    nowMs = 500;
    expect(rate(1100)).toBeUndefined();
    nowMs = 2000;
    expect(rate(1400)).toBe(200);
  });

  test('forgets what is long past', () => {
    let nowMs = 0;
    const rate = createFinishRate(() => nowMs);
    rate(0);
    nowMs = 60_000;
    expect(rate(1_000_000)).toBeUndefined();
    nowMs = 61_000;
    expect(rate(1_000_010)).toBe(10);
  });

  test('is never negative', () => {
    let nowMs = 0;
    const rate = createFinishRate(() => nowMs);
    rate(100);
    nowMs = 2000;
    expect(rate(50)).toBe(0);
  });
});
