/**
 * Counts the processes that a handler has started and left running. They must not outlive the job, and the only
 * reliable way is to end the handler's process with them. Processes that the module started while it was loaded (a
 * compiler's helper, a browser shared by all jobs) do not count. Only Linux can list them; elsewhere they end with
 * the handler's process.
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
