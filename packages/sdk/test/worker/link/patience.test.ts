import { describe, expect, it } from 'vitest';
import { phaseStarts } from '../../../src/worker/link/lease-clock.js';
import { patienceWith, pauseAfter } from '../../../src/worker/link/patience.js';
import { ServerList } from '../../../src/worker/link/server-list.js';

describe('the patience with a server', () => {
  it.each([3000, 10_000, 30_000, 60_000])(
    'leaves time for three deaf servers and a good one in half a lease of %i ms',
    (leaseMs) => {
      const { handshakeMs, welcomeMs } = patienceWith({ leaseMs, ageMs: leaseMs / 2 });
      expect(3 * handshakeMs + welcomeMs / 2).toBeLessThanOrEqual(phaseStarts(leaseMs).stoppingMs - leaseMs / 2);
    },
  );

  it.each([3000, 30_000])('lets a worker whose lease of %i ms is over come back within another one', (leaseMs) => {
    const { handshakeMs, longestPauseMs, spreadMs } = patienceWith({ leaseMs, ageMs: leaseMs });
    expect(spreadMs + longestPauseMs + handshakeMs).toBeLessThan(leaseMs);
  });

  it('is long before the first lease, and never so short that a busy server cannot answer', () => {
    const { handshakeMs, welcomeMs, longestPauseMs } = patienceWith(undefined);
    expect({ handshakeMs, welcomeMs, longestPauseMs }).toEqual({
      handshakeMs: 10_000,
      welcomeMs: 20_000,
      longestPauseMs: 5000,
    });
    expect(patienceWith({ leaseMs: 100, ageMs: 0 })).toMatchObject({ handshakeMs: 250, welcomeMs: 250 });
  });

  it('spreads the workers of a server that is gone, and leaves them the second half of the lease', () => {
    expect(patienceWith({ leaseMs: 30_000, ageMs: 0 }).spreadMs).toBe(1000);
    expect(patienceWith({ leaseMs: 600_000, ageMs: 0 }).spreadMs).toBe(2000);
    for (const leaseMs of [100, 3000, 30_000, 600_000]) {
      for (let share = 0; share <= 1.2; share += 0.05) {
        const ageMs = leaseMs * share;
        const { spreadMs } = patienceWith({ leaseMs, ageMs });
        expect(spreadMs).toBeGreaterThanOrEqual(0);
        if (ageMs < phaseStarts(leaseMs).overMs) {
          expect(ageMs + spreadMs).toBeLessThanOrEqual(Math.max(ageMs, leaseMs / 2));
        }
      }
    }
  });

  it('is not exceeded by any pause, and pauses grow with the rounds', () => {
    expect(pauseAfter(1, 5000, 1)).toBe(100);
    expect(pauseAfter(2, 5000, 1)).toBe(200);
    expect(pauseAfter(2, 5000, 0)).toBe(100);
    expect(pauseAfter(1000, 5000, 1)).toBe(5000);
    expect(pauseAfter(1000, patienceWith({ leaseMs: 3000, ageMs: 0 }).longestPauseMs, 1)).toBe(150);
  });
});

describe('the list of servers', () => {
  it('gives every server once a round, and the one that was just left last', () => {
    const list = new ServerList(['http://a'], 0);
    const first = list.next();
    list.learn(['http://a', 'http://b', 'http://c']);
    const round = [list.next(first)];
    round.push(list.next(round[0]), list.next(round[1]));
    expect(round).toEqual(['http://b', 'http://c', 'http://a']);
  });

  it('never adds an address without TLS to those of a worker that was given https, and reports it once', () => {
    const list = new ServerList(['https://a'], 0);
    const announced = ['http://a', 'http://b:8420', 'https://c', 'ws://d', 'HTTP://E', 'not an address'];
    expect(list.learn(announced)).toEqual(['http://a', 'http://b:8420', 'http://e']);
    expect(list.urls).toEqual(['https://a', 'https://c']);
    expect(list.learn(announced)).toEqual([]);
    expect(list.urls).toEqual(['https://a', 'https://c']);
  });

  it('keeps an address without TLS that the worker itself was given', () => {
    const list = new ServerList(['http://a', 'https://b'], 0);
    expect(list.learn(['http://a', 'http://c', 'https://d'])).toEqual(['http://c']);
    expect(list.urls).toEqual(['http://a', 'https://b', 'https://d']);
  });

  it('takes up addresses with TLS when it was given none', () => {
    const list = new ServerList(['http://a'], 0);
    expect(list.learn(['https://b', 'http://c'])).toEqual([]);
    expect(list.urls).toEqual(['http://a', 'https://b', 'http://c']);
  });
});
