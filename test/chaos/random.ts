/** Seeded random numbers: the same seed gives the same numbers on every machine. */
export type Random = {
  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number;
  between(low: number, high: number): number;
  whole(low: number, high: number): number;
  pick<Value>(values: readonly Value[]): Value;
  /** Another stream, independent of how many numbers were taken from this one. */
  fork(label: string): Random;
};

export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  return {
    next,
    between: (low, high) => low + next() * (high - low),
    whole: (low, high) => Math.floor(low + next() * (high - low + 1)),
    pick(values) {
      const value = values[Math.floor(next() * values.length)];
      if (value === undefined) throw new Error('nothing to pick from');
      return value;
    },
    fork: (label) =>
      createRandom(
        [...label].reduce((hash, letter) => Math.imul(hash ^ letter.charCodeAt(0), 16777619), seed ^ 0x811c9dc5),
      ),
  };
}
