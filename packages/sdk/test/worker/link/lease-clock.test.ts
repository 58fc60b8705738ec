import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elapsedMs, LeaseClock, phaseStarts, type Reading } from '../../../src/worker/link/lease-clock.js';

const at = (ms: number, changes: Partial<Reading> = {}): Reading => ({
  monotonicMs: ms,
  wallMs: 1_000_000 + ms,
  bootMs: 5000 + ms,
  ...changes,
});

const clockOf = (leaseMs: number) => {
  const clock = new LeaseClock();
  clock.begin(at(0), leaseMs);
  return clock;
};

describe('LeaseClock', () => {
  it('goes from trusted over doubtful and stopping to over, all before the lease has run out', () => {
    const clock = clockOf(30_000);
    const phases = [0, 22_499, 22_500, 26_999, 27_000, 29_249, 29_250, 30_000].map((ms) => clock.look(at(ms)).phase);
    expect(phases).toEqual(['trusted', 'trusted', 'doubtful', 'doubtful', 'stopping', 'stopping', 'over', 'over']);
  });

  it('counts from before the beat was sent that was answered, not from the answer', () => {
    const clock = clockOf(1000);
    clock.sending(1, at(100));
    clock.sending(2, at(300));
    clock.answered(1);
    expect(clock.lease?.since).toEqual(at(100));
    clock.answered(2);
    clock.answered(1);
    expect(clock.lease?.since).toEqual(at(300));
  });

  it('takes no answer for a beat of an earlier connection', () => {
    const clock = clockOf(1000);
    clock.sending(1, at(100));
    clock.begin(at(200), 1000);
    clock.answered(1);
    expect(clock.lease?.since).toEqual(at(200));
  });

  it('counts the lease as over when the machine was suspended or its time jumped forward', () => {
    expect(clockOf(30_000).look(at(10, { bootMs: 5000 + 600_000 })).phase).toBe('over');
    expect(clockOf(30_000).look(at(10, { wallMs: 1_000_000 + 600_000 })).phase).toBe('over');
  });

  it('is not fooled by a time that was set back', () => {
    expect(clockOf(30_000).look(at(28_000, { wallMs: 5, bootMs: 5 })).phase).toBe('stopping');
  });

  it('is doubtful before the first welcome', () => {
    expect(new LeaseClock().look(at(0)).phase).toBe('doubtful');
  });

  it('never says that less time has passed than the monotonic clock does, nor ends after the lease', () => {
    const ms = fc.integer({ min: -1e9, max: 1e9 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e7 }), fc.nat(1e7), ms, ms, (leaseMs, passedMs, wallMs, bootMs) => {
        const now = at(passedMs, { wallMs, bootMs });
        expect(elapsedMs(at(0), now)).toBeGreaterThanOrEqual(passedMs);
        if (passedMs >= leaseMs) expect(clockOf(leaseMs).look(now).phase).toBe('over');
        const { doubtfulMs, stoppingMs, overMs } = phaseStarts(leaseMs);
        expect(doubtfulMs).toBeLessThanOrEqual(stoppingMs);
        expect(stoppingMs).toBeLessThanOrEqual(overMs);
        expect(overMs).toBeLessThanOrEqual(leaseMs);
      }),
    );
  });
});
