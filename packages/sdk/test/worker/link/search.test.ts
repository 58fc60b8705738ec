import { describe, expect, it } from 'vitest';
import { Search } from '../../../src/worker/link/search.js';

describe('the search for a server', () => {
  it('is reported after five seconds and then once a minute, with the last reason of each server', () => {
    const search = new Search(1000);
    expect(search.failed('http://a', 'refused', 1000)).toBeUndefined();
    expect(search.failed('http://b', 'no answer', 5900)).toBeUndefined();
    const reasons = { 'http://a': 'not found', 'http://b': 'no answer' };
    expect(search.failed('http://a', 'not found', 6000.4)).toEqual({ forMs: 5000, reasons });
    expect(search.failed('http://b', 'no answer', 66_000)).toBeUndefined();
    expect(search.failed('http://b', 'no answer', 66_001)).toEqual({ forMs: 65_001, reasons });
  });

  it('begins again when a connection is lost', () => {
    const search = new Search(0);
    search.failed('http://a', 'refused', 0);
    search.restart(10_000);
    expect(search.failed('http://b', 'closed', 10_000)).toBeUndefined();
    expect(search.failed('http://b', 'refused', 15_000)).toEqual({
      forMs: 5000,
      reasons: { 'http://b': 'refused' },
    });
  });
});
