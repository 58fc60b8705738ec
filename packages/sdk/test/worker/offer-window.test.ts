import { LIMITS } from '@drover/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_UNACKNOWLEDGED, OfferWindow } from '../../src/worker/offer-window.js';
import { AdaptivePrefetch } from '../../src/worker/prefetch.js';

describe('OfferWindow', () => {
  it('begins with the room there is, also when jobs of an earlier connection are still held', () => {
    expect(new OfferWindow().open({ slots: 10, prefetch: 5, held: 4, unacknowledged: 0 })).toBe(11);
  });

  it('offers a single place at once if a slot would stay empty', () => {
    const window = new OfferWindow();
    window.open({ slots: 10, prefetch: 0, held: 0, unacknowledged: 0 });
    window.received(10);
    expect(window.raise({ slots: 10, prefetch: 0, held: 10, unacknowledged: 0 })).toBeUndefined();
    expect(window.raise({ slots: 10, prefetch: 0, held: 9, unacknowledged: 0 })).toBe(11);
    expect(window.raise({ slots: 10, prefetch: 0, held: 9, unacknowledged: 0 })).toBeUndefined();
  });

  it('moves in steps of a quarter under load', () => {
    const window = new OfferWindow();
    window.open({ slots: 10, prefetch: 90, held: 0, unacknowledged: 0 });
    window.received(100);
    expect(window.raise({ slots: 10, prefetch: 90, held: 76, unacknowledged: 0 })).toBeUndefined();
    expect(window.raise({ slots: 10, prefetch: 90, held: 75, unacknowledged: 0 })).toBe(125);
  });

  it('takes no jobs while too many outcomes wait for the server, and resumes when the server has caught up', () => {
    const window = new OfferWindow();
    const idle = { slots: 10, prefetch: 0, held: 0 };
    window.open({ ...idle, unacknowledged: 0 });
    window.received(10);
    expect(window.raise({ ...idle, unacknowledged: MAX_UNACKNOWLEDGED + 10 })).toBeUndefined();
    expect(window.raise({ ...idle, unacknowledged: MAX_UNACKNOWLEDGED })).toBe(20);
  });

  it('never lets more come in than there was room for, and leaves no slot without an offer', () => {
    const steps = fc.array(fc.tuple(fc.nat(50), fc.nat(50)), { maxLength: 200 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.nat(100), steps, (slots, prefetch, moves) => {
        const window = new OfferWindow();
        let offered = window.open({ slots, prefetch, held: 0, unacknowledged: 0 });
        let received = 0;
        let held = 0;
        for (const [arrive, finish] of moves) {
          const arriving = Math.min(arrive, offered - received);
          window.received(arriving);
          received += arriving;
          held += arriving;
          expect(held).toBeLessThanOrEqual(slots + prefetch);
          held -= Math.min(finish, held);
          offered = window.raise({ slots, prefetch, held, unacknowledged: 0 }) ?? offered;
          expect(held + offered - received).toBeGreaterThanOrEqual(slots);
        }
      }),
    );
  });
});

describe('AdaptivePrefetch', () => {
  const after = (slots: number, durations: number[]) => {
    const prefetch = new AdaptivePrefetch(slots);
    for (const ms of durations) prefetch.observe(ms);
    return prefetch;
  };

  it('starts with nothing and grows by doubling to what hides a round trip', () => {
    const prefetch = new AdaptivePrefetch(10);
    const sizes = [0, 1, 2, 3, 4, 5, 6].map((count) => {
      if (count > 0) prefetch.observe(5);
      return prefetch.size;
    });
    expect(sizes).toEqual([0, 1, 2, 4, 8, 16, 32]);
    expect(after(10, Array(20).fill(5)).size).toBe(50);
  });

  it('is limited for the fastest jobs and nothing for slow ones', () => {
    expect(after(100, Array(20).fill(0)).size).toBe(LIMITS.prefetch);
    expect(after(10, Array(20).fill(100)).size).toBe(0);
  });

  it('is nothing again after a standstill', () => {
    const prefetch = after(10, Array(20).fill(1));
    prefetch.stalled();
    expect(prefetch.size).toBe(0);
    prefetch.observe(1000);
    expect(prefetch.size).toBe(0);
  });
});
