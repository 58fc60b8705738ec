/**
 * The servers that a worker knows: the configured ones and those that a server has announced. It uses them in turn,
 * starting with a random one, so that many workers spread over the servers.
 *
 * Invariant: a worker that was given an `https` address uses no announced address without TLS. An announcement would
 * otherwise decide whether the token crosses the network unencrypted.
 */
import { MAX_SERVERS, normalUrl } from '../../server-urls.js';

export class ServerList {
  readonly #configured: readonly string[];
  readonly #needsTls: boolean;
  /** Announced addresses without TLS, each reported once. */
  readonly #refused = new Set<string>();
  #known: string[];
  #next: number;

  constructor(configured: readonly string[], random: number = Math.random()) {
    this.#configured = configured;
    this.#needsTls = configured.some(isSecure);
    this.#known = [...configured];
    this.#next = Math.floor(random * configured.length);
  }

  get urls(): readonly string[] {
    return this.#known;
  }

  /**
   * Replaces the servers that were announced before. Returns addresses that are not used because they are without
   * TLS, each only the first time.
   */
  learn(urls: readonly string[]): string[] {
    const known = new Set(this.#configured);
    const refused: string[] = [];
    for (const announced of urls.slice(0, MAX_SERVERS)) {
      const url = usableUrl(announced);
      if (url === undefined || known.has(url) || known.size >= MAX_SERVERS) continue;
      if (!this.#needsTls || isSecure(url)) known.add(url);
      else if (this.#isFirstRefusal(url)) refused.push(url);
    }
    this.#known = [...known];
    return refused;
  }

  #isFirstRefusal(url: string): boolean {
    if (this.#refused.has(url) || this.#refused.size >= MAX_SERVERS) return false;
    this.#refused.add(url);
    return true;
  }

  /**
   * The next server to try; another one than `avoid` if possible, because an announcement may have moved it to the
   * front.
   */
  next(avoid?: string): string {
    const candidate = this.#known[this.#next % this.#known.length] as string;
    this.#next = (this.#next + 1) % this.#known.length;
    if (candidate !== avoid || this.#known.length === 1) return candidate;
    return this.next(avoid);
  }
}

function isSecure(url: string): boolean {
  return url.startsWith('https:');
}

/** Undefined for an address that this worker cannot use; the others are still valid. */
function usableUrl(announced: string): string | undefined {
  try {
    return normalUrl(announced);
  } catch {
    return undefined;
  }
}
