/**
 * The memory that requests in progress may take on a server, all together. What does not fit is refused: a server that
 * runs out of memory ends everybody's requests.
 */
import { DroverError } from '@drover/protocol';

export type MemoryBudget = {
  /** For one request. */
  share(): MemoryShare;
};

export type MemoryShare = {
  /** Throws overloaded if there is no room for so much more. A request that is alone always has room. */
  check(bytes: number): void;
  /** The same, and takes it. */
  take(bytes: number): void;
  /** Gives everything back. */
  release(): void;
};

export function createMemoryBudget(limitBytes: number): MemoryBudget {
  let used = 0;

  return {
    share() {
      let own = 0;
      function check(bytes: number): void {
        if (used + bytes <= limitBytes || used === own) return;
        const message = `the requests in progress on this server have reached its limit of ${limitBytes} bytes`;
        throw new DroverError('overloaded', message, { limit: limitBytes });
      }
      return {
        check,
        take(bytes) {
          check(bytes);
          own += bytes;
          used += bytes;
        },
        release() {
          used -= own;
          own = 0;
        },
      };
    },
  };
}
