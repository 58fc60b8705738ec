/**
 * CLOCK_MONOTONIC in milliseconds. It is one clock for the whole machine, so a time taken in the producer
 * may be compared with one taken in the worker. A double keeps it exact to under a microsecond for years.
 */
export function monotonicMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
