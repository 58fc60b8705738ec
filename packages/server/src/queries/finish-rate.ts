/**
 * Jobs finished per second, live. The rollups have a resolution of minutes, which is too coarse for live statistics.
 * So each reading of the total is remembered for a while, and the rate is the growth since an earlier reading.
 * Without a recent reading there is no rate, and the caller uses the rollups.
 */

/** Growth over less than this is noise. */
const MIN_SPAN_MS = 1000;
/** A rate over a longer time is not the present one. */
const MAX_SPAN_MS = 10_000;

export function createFinishRate(now: () => number = () => performance.now()): (total: number) => number | undefined {
  let samples: { at: number; total: number }[] = [];

  return (total) => {
    const at = now();
    samples = samples.filter((sample) => at - sample.at <= MAX_SPAN_MS);
    const newest = samples.at(-1);
    // At most ten readings are kept, so that many watchers do not fill the memory.
    if (!newest || at - newest.at >= MIN_SPAN_MS) samples.push({ at, total });
    const oldest = samples[0];
    if (!oldest || at - oldest.at < MIN_SPAN_MS) return undefined;
    // Pruning may have removed old minutes from the total.
    return Math.max(0, ((total - oldest.total) * 1000) / (at - oldest.at));
  };
}
