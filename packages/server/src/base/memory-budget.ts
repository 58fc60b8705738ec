/**
 * The memory that requests in progress may take on a server, all together. What does not fit is refused: a server that
 * runs out of memory ends everybody's requests.
 */
import { DroverError } from '@drover/protocol';

export type MemoryBudget = {
  /** For one request. Those with the same owner have a limit together, too. */
  share(owner?: object): MemoryShare;
};

export type MemoryShare = {
  /** Throws overloaded if there is no room for so much more. A request that is alone always has room. */
  check(bytes: number): void;
  /** The same, and takes it. */
  take(bytes: number): void;
  /** Gives everything back. */
  release(): void;
};

export function createMemoryBudget(limitBytes: number, ownerLimitBytes = limitBytes): MemoryBudget {
  let used = 0;
  const byOwner = new WeakMap<object, { used: number }>();

  function accountOf(owner: object): { used: number } {
    const account = byOwner.get(owner) ?? { used: 0 };
    byOwner.set(owner, account);
    return account;
  }

  return {
    share(owner) {
      let own = 0;
      const account = owner && accountOf(owner);
      function check(bytes: number): void {
        if (account && account.used + bytes > ownerLimitBytes && account.used !== own) {
          const message = `the requests in progress of this caller have reached its limit of ${ownerLimitBytes} bytes on this server`;
          throw new DroverError('overloaded', message, { limit: ownerLimitBytes });
        }
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
          if (account) account.used += bytes;
        },
        release() {
          used -= own;
          if (account) account.used -= own;
          own = 0;
        },
      };
    },
  };
}
