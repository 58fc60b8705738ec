import { describe, expect, it } from 'vitest';
import { createGatherer } from '../src/gather.js';

/** Flushes that stay under way until the test ends them. */
function heldFlushes({ concurrency = 1, maxWeight = 10 } = {}) {
  const flushes: { items: string[]; end(results?: (string | Error)[]): void; fail(error: Error): void }[] = [];
  const gatherer = createGatherer<string, string>({
    concurrency,
    maxWeight,
    weigh: (item) => item.length,
    flush: (items) =>
      new Promise((resolve, reject) => {
        flushes.push({ items, end: (results = items) => resolve(results), fail: reject });
      }),
  });
  return { gatherer, flushes, sent: () => flushes.map(({ items }) => items.join('')) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a gatherer', () => {
  it('sends an item at once where nothing is under way, and together what comes meanwhile', async () => {
    const { gatherer, flushes, sent } = heldFlushes();
    const added = [gatherer.add('a')];
    await turn();
    expect(sent()).toEqual(['a']);
    added.push(gatherer.add('b'), gatherer.add('c'));
    await turn();
    expect(sent()).toEqual(['a']);
    flushes[0]?.end();
    await turn();
    expect(sent()).toEqual(['a', 'bc']);
    flushes[1]?.end();
    expect(await Promise.all(added)).toEqual(['a', 'b', 'c']);
    await gatherer.idle();
  });

  it('sends together what comes in one turn', async () => {
    const { gatherer, flushes, sent } = heldFlushes({ concurrency: 2 });
    const added = ['a', 'b', 'c'].map(gatherer.add);
    await turn();
    expect(sent()).toEqual(['abc']);
    for (const { end } of flushes) end();
    expect(await Promise.all(added)).toEqual(['a', 'b', 'c']);
  });

  it('keeps the order of what waits when the flush before it ends in the same turn', async () => {
    const { gatherer, flushes, sent } = heldFlushes({ maxWeight: 2 });
    const added = ['a', 'b', 'cd', 'e'].map(gatherer.add);
    await turn();
    for (let flushed = 0; flushed < flushes.length; flushed++) {
      flushes[flushed]?.end();
      if (flushed === 0) added.push(gatherer.add('f'));
      await turn();
    }
    expect(await Promise.all(added)).toEqual(['a', 'b', 'cd', 'e', 'f']);
    expect(sent()).toEqual(['ab', 'cd', 'ef']);
  });

  it('fails a single item, or all items of a flush that rejects, and continues', async () => {
    const { gatherer, flushes } = heldFlushes();
    const alone = gatherer.add('a');
    await turn();
    const together = Promise.allSettled([gatherer.add('b'), gatherer.add('c')]);
    flushes[0]?.fail(new Error('broken'));
    await expect(alone).rejects.toThrow('broken');
    await turn();
    flushes[1]?.end([new Error('only b'), 'c']);
    expect(await together).toMatchObject([{ status: 'rejected' }, { value: 'c' }]);
    const last = gatherer.add('d');
    await turn();
    flushes[2]?.end();
    expect(await last).toBe('d');
    await gatherer.idle();
  });

  it('continues after a flush that throws', async () => {
    const gatherer = createGatherer<string, string>({
      ...{ concurrency: 1, maxWeight: 10, weigh: () => 1 },
      flush(items) {
        if (items.includes('bad')) throw new Error('too long');
        return Promise.resolve(items);
      },
    });
    await expect(gatherer.add('bad')).rejects.toThrow('too long');
    expect(await gatherer.add('good')).toBe('good');
    await gatherer.idle();
  });
});
