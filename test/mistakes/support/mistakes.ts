/**
 * The mistakes that people make, as tables: what was done, and the exact message that they get. Each file of this folder
 * has the tables of one way to use Drover. To add a row, make the mistake and write down the message; then read the whole
 * table aloud. A message names the field or setting, the value, what was expected, and what to do.
 */
import { describe, expect, it } from 'vitest';

/**
 * `make` throws or rejects with the error, or returns what was printed. A function as message takes what is known only when
 * the test runs, such as a port.
 */
export type Mistake = readonly [what: string, make: () => unknown, message: string | (() => string)];

export function describeMistakes(part: string, mistakes: readonly Mistake[]): void {
  describe(part, () => {
    it.each(mistakes)('%s', async (_what, make, message) => {
      expect(await messageOf(make)).toBe(typeof message === 'string' ? message : message());
    });
  });
}

async function messageOf(make: () => unknown): Promise<unknown> {
  try {
    return await make();
  } catch (error) {
    return error instanceof Error ? error.message : error;
  }
}
