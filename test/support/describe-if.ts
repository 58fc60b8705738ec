/** Tests that need what not every machine has. Left out silently they would be forgotten. */
import { describe, expect, it } from 'vitest';

/** `describe`, or one that leaves its tests out, says so loudly and, with CI set, fails. */
export function describeIf(isThere: boolean, whatIsMissing: string): typeof describe | typeof describe.skip {
  if (isThere) return describe;
  console.warn(whatIsMissing);
  if (process.env.CI) it('has all that its tests need', () => expect.fail(whatIsMissing));
  return describe.skip;
}
