/**
 * Jobs finished a second, live. The rollups know minutes; somebody who watches wants the last seconds. So
 * each reading of the total is remembered for a while and the rate is the growth since an earlier one. If
 * nobody has asked lately there is none, and the caller falls back on the minutes.
 */

/** Growth over less than this is noise. */
const MIN_SPAN_MS = 1000;
/** A rate over more than this is not the present one. */
const MAX_SPAN_MS = 10_000;

export function createFinishRate(now: () => number = () => performance.now()): (total: number) => number | undefined {
  let samples: { at: number; total: number }[] = [];

  return (total) => {
    const at = now();
    samples = samples.filter((sample) => at - sample.at <= MAX_SPAN_MS);
    const newest = samples.at(-1);
    // Not every reading is kept, or many watchers would fill the memory: at most ten are.
    if (!newest || at - newest.at >= MIN_SPAN_MS) samples.push({ at, total });
    const oldest = samples[0];
    if (!oldest || at - oldest.at < MIN_SPAN_MS) return undefined;
    // Retention may have taken old minutes out of the total.
    return Math.max(0, ((total - oldest.total) * 1000) / (at - oldest.at));
  };
}
