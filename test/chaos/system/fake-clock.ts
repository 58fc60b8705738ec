/** A separate wall clock for one process, by libfaketime: set while the process runs, without an effect on timers. */
import { existsSync, renameSync, writeFileSync } from 'node:fs';

const LIBRARIES = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib64/faketime/libfaketimeMT.so.1',
];

/** How long a process caches a time: reading the file at every access to the clock would cost far too much. */
const KEPT_SECONDS = 1;
/**
 * After this long every process sees a new time. libfaketime counts in whole seconds and reads again when *more* than
 * the given number have passed, so a process may use the old time for up to 1.8 s.
 */
export const CLOCK_LOOK_MS = (KEPT_SECONDS + 1) * 1000;

export type FakeClock = {
  /** The environment for the process. */
  readonly env: Record<string, string>;
  /** Sets the clock this far from the true time. */
  jump(seconds: number): void;
};

/** Undefined where the library is not installed. */
export function createFakeClock(file: string): FakeClock | undefined {
  const library = LIBRARIES.find((path) => existsSync(path));
  if (library === undefined) return undefined;
  function jump(seconds: number): void {
    // by a rename, because a process that reads during a write would see an empty file
    writeFileSync(`${file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`, { mode: 0o644 });
    renameSync(`${file}.new`, file);
  }
  jump(0);
  return {
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: String(KEPT_SECONDS),
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
      FAKETIME_NO_CACHE: '0',
      // a process that is killed within a faked stat() keeps a lock that all processes of the same start share
      NO_FAKE_STAT: '1',
    },
    jump,
  };
}
