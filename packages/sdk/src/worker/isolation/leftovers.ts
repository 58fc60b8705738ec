/**
 * Counts the processes that a handler has started and left running. Such a process must not outlive its job,
 * and the only sure way is to end the handler's process with it. What the module has started while it was
 * loaded (a compiler's helper, a browser kept for all jobs) stays. Linux alone tells; elsewhere none are seen,
 * and they end when the process does.
 */
import { readFileSync } from 'node:fs';

const CHILDREN = `/proc/self/task/${process.pid}/children`;

export class Leftovers {
  readonly #before = new Set(children());

  count(): number {
    return children().filter((pid) => !this.#before.has(pid)).length;
  }
}

function children(): string[] {
  if (process.platform !== 'linux') return [];
  try {
    return readFileSync(CHILDREN, 'latin1').match(/\d+/g) ?? [];
  } catch {
    // A kernel built without this file.
    return [];
  }
}
