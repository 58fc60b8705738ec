/** The use cases of tokens: what the API and the command line call. */
import {
  DroverError,
  type NewToken,
  newId,
  type RotateToken,
  type Token,
  type TokenWithSecret,
} from '@drover/protocol';
import type { TransactionRunner } from '../db/database.js';
import { audited } from './audit.js';
import type { Caller } from './principal.js';
import { createSecret } from './token-secret.js';
import { createToken, listTokens, revokeToken, rotateToken } from './token-table.js';

export type Tokens = {
  /** Throws token_exists. */
  create(token: NewToken, by: Caller): Promise<TokenWithSecret>;
  /** Those of the configuration first. */
  list(): Promise<Token[]>;
  /** Returns whether it was valid until now. */
  revoke(id: string, by: Caller): Promise<boolean>;
  /** Throws token_not_found. */
  rotate(id: string, rotation: RotateToken, by: Caller): Promise<TokenWithSecret>;
};

export type TokensDeps = {
  db: TransactionRunner;
  /** Those of this server's configuration. */
  configured: readonly Pick<Token, 'kind' | 'name' | 'role'>[];
  /** Called when secrets have become invalid. */
  onChange(): void;
};

export async function issueToken(
  db: Pick<TransactionRunner, 'transaction'>,
  token: NewToken,
  by: Caller,
): Promise<TokenWithSecret> {
  const id = newId();
  const { secret, hash } = createSecret(id);
  const { name, role, expires: lifetimeMs, queues = null, types = null, payloads } = token;
  return audited(db, by, async (tx, note) => {
    const wanted = { id, name, role, hash, lifetimeMs, queues, types, payloads };
    const created = await createToken(tx, wanted, by.principal.name);
    note({ target: id, after: created });
    return { ...created, secret };
  });
}

export function createTokens({ db, configured, onChange }: TokensDeps): Tokens {
  const shown = configured.map(({ kind, name, role }): Token => ({ ...OF_CONFIGURATION, kind, name, role }));
  return {
    create: (token, by) => issueToken(db, token, by),
    list: async () => [...shown, ...(await listTokens(db))],

    async revoke(id, by) {
      const revoked = await audited(db, by, async (tx, note) => {
        const token = await revokeToken(tx, id, by.principal.name);
        if (token) note({ target: id, before: { state: 'active' }, after: token });
        return token;
      });
      onChange();
      return revoked !== undefined;
    },

    async rotate(id, { overlap: overlapMs, expires: lifetimeMs }, by) {
      const { secret, hash } = createSecret(id);
      const token = await audited(db, by, async (tx, note) => {
        const rotated = await rotateToken(tx, id, { hash, overlapMs, lifetimeMs });
        if (rotated) note({ target: id, after: rotated });
        return rotated;
      });
      onChange();
      if (!token) throw new DroverError('token_not_found', `there is no token ${id}, or it is revoked`, { id });
      return { ...token, secret };
    },
  };
}

/** What the table has and the configuration has not. */
const OF_CONFIGURATION = {
  ...{
    id: null,
    state: 'active' as const,
    queues: null,
    types: null,
    payloads: true,
    createdBy: null,
    createdAt: null,
    rotatedAt: null,
    expiresAt: null,
  },
  ...{ overlapUntil: null, lastUsedAt: null, revokedAt: null, revokedBy: null },
};
