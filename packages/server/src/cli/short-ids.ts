/**
 * Short forms of ids: what lists show, and what every command that takes an id accepts. An id begins with the time at
 * which it was made, so those of one minute have the same first eight characters.
 */
import { DroverError, type ErrorCode, ID_PREFIX_EXPECTED, idPrefixSchema, isUuid } from '@drover/protocol';
import type { Client } from '@drover/sdk';
import { UsageError } from './exit-codes.js';

const SHORTEST_SHOWN = 8;
const MAX_CANDIDATES = 10;

/** The shortest beginnings, of equal length, that are different. */
export function shortIds(ids: readonly string[]): string[] {
  const longest = Math.max(0, ...ids.map((id) => id.length));
  for (let length = SHORTEST_SHOWN; length < longest; length++) {
    const short = ids.map((id) => id.slice(0, length));
    if (!short.some((one) => one.endsWith('-')) && new Set(short).size === ids.length) return short;
  }
  return [...ids];
}

/** What has an id: how to find those that begin with a prefix, and how to describe one. */
type Findable = {
  name: string;
  missing: ErrorCode;
  find: (client: Client, idPrefix: string) => Promise<{ id: string; text: string }[]>;
};

const FINDABLE = {
  job: {
    name: 'job',
    missing: 'job_not_found',
    find: async (client, idPrefix) => {
      const { items } = await client.list({ idPrefix, limit: MAX_CANDIDATES + 1 });
      return items.map(({ id, type, state }) => ({ id, text: `${type}, ${state}` }));
    },
  },
  worker: {
    name: 'worker',
    missing: 'worker_not_found',
    find: async (client, idPrefix) => {
      const workers = await client.workers({ idPrefix });
      return workers.map(({ id, name, state }) => ({ id, text: `${name}, ${state}` }));
    },
  },
  token: {
    name: 'token',
    missing: 'token_not_found',
    find: async (client, idPrefix) => {
      const tokens = await client.tokens.list();
      // those of the configuration have none
      return tokens.flatMap(({ id, name, state }) =>
        id?.startsWith(idPrefix) ? { id, text: `${name}, ${state}` } : [],
      );
    },
  },
} as const satisfies Record<string, Findable>;

/** The id that begins with what was given. A whole id is not looked up. */
export async function findId(client: Client, what: keyof typeof FINDABLE, given: string): Promise<string> {
  if (isUuid(given)) return given.toLowerCase();
  const { name, missing, find }: Findable = FINDABLE[what];
  const prefix = idPrefixSchema.safeParse(given);
  if (!prefix.success) throw new UsageError(`id: expected ${ID_PREFIX_EXPECTED}, got "${given}"`);
  const found = await find(client, prefix.data);
  const [first, ...others] = found;
  if (first === undefined) throw new DroverError(missing, `there is no ${name} whose id begins with ${prefix.data}`);
  if (others.length === 0) return first.id;
  const shown = found.slice(0, MAX_CANDIDATES).map(({ id, text }) => `\n  ${id}  ${text}`);
  const more = found.length > MAX_CANDIDATES ? '\n  …' : '';
  throw new UsageError(`id: ${prefix.data} is the beginning of more than one id:${shown.join('')}${more}`);
}
