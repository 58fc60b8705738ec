/**
 * Runs an expensive read on demand, but spends at most a share of the time on it: a read that took 5 ms may be
 * repeated after 0.5 s, one that took a second after 100 s. In between, the last answer is returned. Small results
 * are read every time, so that small systems and tests see exact numbers. Concurrent callers share one read.
 */

/** The share of the time that reading may take. */
const DUTY_CYCLE = 0.01;
/** Results with at most this many rows, read in a short time, are read for every request. */
const SMALL_ROWS = 5000;
const SMALL_COST_MS = 50;

export type Reading<Value> = { value: Value; rows: number };

export type BoundedReaderOptions<Value> = {
  read(): Promise<Reading<Value>>;
  /** A monotonic clock in milliseconds. */
  now?: () => number;
};

/** Returns a function that returns a fresh value or the last one. A failed read is not cached. */
export function createBoundedReader<Value>(options: BoundedReaderOptions<Value>): () => Promise<Value> {
  const now = options.now ?? (() => performance.now());
  let last: { value: Value; freshUntil: number } | undefined;
  let underWay: Promise<Value> | undefined;

  async function read(): Promise<Value> {
    const startedAt = now();
    const { value, rows } = await options.read();
    const endedAt = now();
    const costMs = endedAt - startedAt;
    const small = rows <= SMALL_ROWS && costMs <= SMALL_COST_MS;
    last = { value, freshUntil: small ? endedAt : endedAt + costMs / DUTY_CYCLE };
    return value;
  }

  return () => {
    if (last && now() < last.freshUntil) return Promise.resolve(last.value);
    underWay ??= read().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}
