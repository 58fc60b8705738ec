/** Waits for a condition: polls until it is true, and reports what was missing if it times out. */
import { setTimeout as delay } from 'node:timers/promises';

const ASK_EVERY_MS = 20;
/** Far above what any condition needs on a busy machine; a test that reaches it has failed. */
export const PATIENCE_MS = 30_000;

/** Returns the first answer that is neither false nor undefined. An error counts as "not yet". */
export async function until<Answer>(
  what: string,
  ask: () => Promise<Answer | false | undefined> | Answer | false | undefined,
  { withinMs = PATIENCE_MS }: { withinMs?: number } = {},
): Promise<Answer> {
  const deadline = performance.now() + withinMs;
  let trouble: unknown;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== false && answer !== undefined) return answer;
      trouble = undefined;
    } catch (error) {
      trouble = error;
    }
    if (performance.now() > deadline) {
      throw new Error(`waited ${withinMs} ms in vain: ${what}`, trouble === undefined ? {} : { cause: trouble });
    }
    await delay(ASK_EVERY_MS);
  }
}
