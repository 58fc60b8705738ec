/** The secrets of tokens. The id in a secret makes it one indexed lookup; the random part is compared by its hash. */
import { createHash, randomBytes } from 'node:crypto';
import { TOKEN_PREFIX } from '@drover/protocol';

const SECRET_BYTES = 32;
const TOKEN_PATTERN = new RegExp(`^${TOKEN_PREFIX}([0-9a-f]{32})_([A-Za-z0-9_-]{43})$`);
const UUID_PARTS = /^(.{8})(.{4})(.{4})(.{4})(.{12})$/;

export type GivenToken = { readonly id: string; readonly hash: Buffer };

export function createSecret(id: string): { secret: string; hash: Buffer } {
  const random = randomBytes(SECRET_BYTES).toString('base64url');
  return { secret: `${TOKEN_PREFIX}${id.replaceAll('-', '')}_${random}`, hash: hashOf(random) };
}

/** Undefined if the text cannot be a token of the database. */
export function readToken(text: string): GivenToken | undefined {
  const match = text.startsWith(TOKEN_PREFIX) ? TOKEN_PATTERN.exec(text) : null;
  if (!match) return undefined;
  const [, id, random] = match as unknown as [string, string, string];
  return { id: id.replace(UUID_PARTS, '$1-$2-$3-$4-$5'), hash: hashOf(random) };
}

function hashOf(random: string): Buffer {
  return createHash('sha256').update(random).digest();
}
