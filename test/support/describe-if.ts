/** Tests that need something that not every machine has. If they were skipped silently, they would be forgotten. */
import { describe, expect, it } from 'vitest';

/** `describe`, or a version that skips its tests with a clear message and fails if CI is set. */
export function describeIf(isThere: boolean, whatIsMissing: string): typeof describe | typeof describe.skip {
  if (isThere) return describe;
  console.warn(whatIsMissing);
  if (process.env.CI) it('has all that its tests need', () => expect.fail(whatIsMissing));
  return describe.skip;
}
