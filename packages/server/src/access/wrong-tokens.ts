/**
 * Counts wrong tokens by address: a configured token may be weak, and each lookup of a token costs a statement. Beyond the limit
 * of a minute the address gets 429 without a lookup. Tokens that this server knows are accepted all the same, because honest
 * clients may share the address.
 */
import { DroverError } from '@drover/protocol';

const WINDOW_MS = 60_000;
/** Addresses in memory. Beyond it, the one that was first seen is forgotten. */
const MAX_ADDRESSES = 10_000;

type Window = { since: number; count: number };

export type WrongTokens = {
  /** Throws too_many_attempts. */
  check(address: string): void;
  note(address: string): void;
};

type Deps = {
  /** Per address and minute. */
  limit: number;
  /** Called for each. */
  count(): void;
  /** Called for the first of an address in a minute, and when it reaches the limit. */
  tell(fields: { address: string; count: number }): void;
  now?: () => number;
};

export function createWrongTokens({ limit, count, tell, now = () => performance.now() }: Deps): WrongTokens {
  const windows = new Map<string, Window>();

  function windowOf(address: string): Window | undefined {
    const window = windows.get(address);
    if (window && now() - window.since < WINDOW_MS) return window;
    windows.delete(address);
    return undefined;
  }

  function open(address: string): Window {
    if (windows.size >= MAX_ADDRESSES) windows.delete(windows.keys().next().value as string);
    const window = { since: now(), count: 0 };
    windows.set(address, window);
    return window;
  }

  return {
    check(address) {
      const window = windowOf(address);
      if (!window || window.count < limit) return;
      const seconds = Math.ceil((window.since + WINDOW_MS - now()) / 1000);
      const message = `${window.count} wrong tokens came from ${address} within a minute: try again in ${seconds} s`;
      throw new DroverError('too_many_attempts', message, { retryAfterSeconds: seconds });
    },
    note(address) {
      count();
      const window = windowOf(address) ?? open(address);
      window.count += 1;
      if (window.count === 1 || window.count === limit) tell({ address, count: window.count });
    },
  };
}
