/** Tokens of the database as this server has read them. */
import { timingSafeEqual } from 'node:crypto';
import type { Principal } from './principal.js';
import { scopeOf } from './scope.js';
import type { GivenToken } from './token-secret.js';
import type { StoredToken } from './token-table.js';

/** Beyond it, the one that was used least recently is forgotten. */
const MAX_COPIES = 10_000;

export type TokenCopy = {
  readonly id: string;
  readonly principal: Principal;
  /** The present secret's, and that of the one before. */
  hashes: readonly Buffer[];
  leftMs: number;
  previousLeftMs: number;
  /** On the monotonic clock: before the statement that read it was sent. */
  readAt: number;
  usedAt: number;
  isUseNoted: boolean;
  /** Ends the streams that it has opened. */
  readonly ends: Set<() => void>;
};

export type TokenCopies = {
  get(id: string): TokenCopy | undefined;
  all(): TokenCopy[];
  keep(stored: StoredToken, readAt: number): void;
  /** The token is not valid any more: its streams end. */
  forget(id: string): void;
  /** Forgets those without streams that were not used for this time. */
  forgetIdle(ms: number): void;
};

export function createTokenCopies(now: () => number): TokenCopies {
  const copies = new Map<string, TokenCopy>();

  function forgetLeastUsed(): void {
    const idle = [...copies.values()].filter(({ ends }) => ends.size === 0);
    const least = idle.reduce<TokenCopy | undefined>(
      (one, other) => (one && one.usedAt <= other.usedAt ? one : other),
      undefined,
    );
    if (least) copies.delete(least.id);
  }

  return {
    get: (id) => copies.get(id),
    all: () => [...copies.values()],
    keep(stored, readAt) {
      const { id, hash, leftMs, previousHash, previousLeftMs } = stored;
      const read = {
        hashes: [hash, previousHash].flatMap((hex) => (hex === null ? [] : [Buffer.from(hex, 'hex')])),
        leftMs: leftMs ?? Number.POSITIVE_INFINITY,
        previousLeftMs: previousLeftMs ?? 0,
        readAt,
      };
      const copy = copies.get(id);
      if (copy) Object.assign(copy, read);
      else
        copies.set(id, {
          id,
          principal: principalOf(stored),
          ...read,
          usedAt: now(),
          isUseNoted: true,
          ends: new Set(),
        });
      if (copies.size > MAX_COPIES) forgetLeastUsed();
    },
    forget(id) {
      const gone = copies.get(id);
      copies.delete(id);
      for (const end of gone?.ends ?? []) end();
    },
    forgetIdle(ms) {
      for (const { id, usedAt, ends } of copies.values()) {
        if (ends.size === 0 && now() - usedAt > ms) copies.delete(id);
      }
    },
  };
}

/** The principal, if the secret is right and the token has not expired since it was read. */
export function matchSecret(copy: TokenCopy, { hash }: GivenToken, now: number): Principal | undefined {
  const ageMs = now - copy.readAt;
  const place = copy.hashes.findIndex((one) => timingSafeEqual(one, hash));
  if (place < 0 || ageMs >= copy.leftMs || (place > 0 && ageMs >= copy.previousLeftMs)) return undefined;
  copy.usedAt = now;
  copy.isUseNoted = false;
  return copy.principal;
}

function principalOf({ id, name, role, queues, types, payloads }: StoredToken): Principal {
  return { name, role, kind: 'token', tokenId: id, scope: scopeOf(queues, types), payloads };
}
