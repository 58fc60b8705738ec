/**
 * The tokens of the database that callers of this server use, as a copy in memory: authentication of a known token needs no
 * statement.
 *
 * All of the copy is read again every REFRESH_MS, and at once after a hint of another server. A token whose copy is older
 * than FRESH_MS is read before it is accepted, so a revoked token is refused within that time on every server, also if hints
 * are lost; its open streams are closed in the next round. While the database does not answer, copies count up to GRACE_MS:
 * an outage must not turn known callers into strangers. Open streams stay meanwhile, because closing them would take jobs from
 * workers that may be valid.
 */

import { createGatherer } from '@drover/protocol/gather';
import type { Logger } from 'pino';
import { createPeriodic } from '../base/periodic.js';
import type { Runner } from '../db/database.js';
import { DatabaseError, isPassing } from '../db/database-error.js';
import type { Principal } from './principal.js';
import { createTokenCopies, matchSecret, type TokenCopy } from './token-copies.js';
import type { GivenToken } from './token-secret.js';
import { noteTokenUse, readTokens } from './token-table.js';

const REFRESH_MS = 2000;
const FRESH_MS = 5000;
const GRACE_MS = 5 * 60_000;
/** A request waits at most this long for the lookup of its token. */
const LOOKUP_LIMIT_MS = 2000;
const NOTE_USE_MS = 60_000;
/** Tokens that one statement reads. */
const MAX_READ = 1000;

export type FindOptions = {
  /** A copy is not enough while the database does not answer. */
  needsDatabase: boolean;
  /** Called before a lookup of a token that is not known here; may throw. */
  mayRead(): void;
};

export type KnownTokens = {
  /** Undefined: there is no such token, it is revoked or expired. Rejects with DatabaseError if that cannot be known. */
  find(token: GivenToken, options: FindOptions): Principal | undefined | Promise<Principal | undefined>;
  /** Calls `end` once when the token becomes invalid. Returns the function that stops the watch. */
  watch(principal: Principal, end: () => void): () => void;
  /** Reads all copies now instead of in the next round. */
  refresh(): void;
  start(): void;
  stop(): Promise<void>;
};

type Deps = { db: Runner; logger: Logger; now?: () => number };

export function createKnownTokens({ db, logger, now = () => performance.now() }: Deps): KnownTokens {
  const copies = createTokenCopies(now);
  let failedAt = Number.NEGATIVE_INFINITY;

  const reads = createGatherer<string, TokenCopy | undefined>({
    weigh: () => 1,
    maxWeight: MAX_READ,
    concurrency: 1,
    async flush(ids) {
      const readAt = now();
      const valid = new Map((await readTokens(db, [...new Set(ids)])).map((stored) => [stored.id, stored]));
      for (const stored of valid.values()) copies.keep(stored, readAt);
      for (const id of ids) if (!valid.has(id)) copies.forget(id);
      return ids.map((id) => copies.get(id));
    },
  });

  async function lookUp(token: GivenToken, { needsDatabase, mayRead }: FindOptions): Promise<Principal | undefined> {
    const copy = copies.get(token.id);
    const known = copy && matchSecret(copy, token, now());
    if (!known) mayRead();
    const isEnough = !needsDatabase && copy !== undefined && now() - copy.readAt <= GRACE_MS;
    if (isEnough && now() - failedAt < FRESH_MS) return known;
    try {
      const read = await limited(reads.add(token.id));
      return read && matchSecret(read, token, now());
    } catch (error) {
      failedAt = now();
      if (isEnough && isPassing(error)) return known;
      throw error;
    }
  }

  async function refresh(): Promise<void> {
    copies.forgetIdle(GRACE_MS);
    await Promise.all(copies.all().map(({ id }) => reads.add(id)));
  }

  async function noteUse(): Promise<void> {
    const used = copies.all().filter(({ isUseNoted }) => !isUseNoted);
    if (used.length === 0) return;
    for (const copy of used) copy.isUseNoted = true;
    await noteTokenUse(
      db,
      used.map(({ id, usedAt }) => ({ id, age_ms: now() - usedAt })),
    );
  }

  const duties = [
    createPeriodic('read tokens', REFRESH_MS, refresh, logger),
    createPeriodic('note the use of tokens', NOTE_USE_MS, noteUse, logger),
  ];

  return {
    find(token, options) {
      const copy = copies.get(token.id);
      const known = copy && now() - copy.readAt <= FRESH_MS ? matchSecret(copy, token, now()) : undefined;
      // a secret that the copy does not know may be newer than the copy
      return known ?? lookUp(token, options);
    },
    watch({ tokenId }, end) {
      const copy = tokenId === null ? undefined : copies.get(tokenId);
      if (tokenId !== null && !copy) end();
      copy?.ends.add(end);
      return () => void copy?.ends.delete(end);
    },
    refresh() {
      refresh().catch((error: Error) =>
        logger.warn(
          { event: 'duty.failed', err: error, duty: 'read tokens' },
          'tokens could not be read, trying again',
        ),
      );
    },
    start() {
      for (const duty of duties) duty.start();
    },
    async stop() {
      await Promise.all(duties.map((duty) => duty.stop()));
      await noteUse().catch((error: Error) =>
        logger.debug(
          { event: 'duty.failed', err: error, duty: 'note the use of tokens' },
          'the use of tokens was not noted',
        ),
      );
    },
  };
}

async function limited<Value>(promise: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    const error = new DatabaseError('unavailable', `no answer within ${LOOKUP_LIMIT_MS} ms`);
    timer = setTimeout(() => reject(error), LOOKUP_LIMIT_MS);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}
