/**
 * The servers a worker knows: those it was configured with and those it was told of. It takes them in
 * turn, from a random one on, so that many workers spread over the servers.
 */
import { MAX_SERVERS, normalUrl } from '../../server-urls.js';

export class ServerList {
  readonly #configured: readonly string[];
  #known: string[];
  #next: number;

  constructor(configured: readonly string[], random: number = Math.random()) {
    this.#configured = configured;
    this.#known = [...configured];
    this.#next = Math.floor(random * configured.length);
  }

  get urls(): readonly string[] {
    return this.#known;
  }

  /** What a server said about all servers takes the place of what was said before. */
  learn(urls: readonly string[]): void {
    const known = new Set(this.#configured);
    for (const url of urls) {
      if (known.size >= MAX_SERVERS) break;
      try {
        known.add(normalUrl(url));
      } catch {
        // An address this worker cannot use; the others are still good.
      }
    }
    this.#known = [...known];
  }

  /** The next to try, and another one than `avoid` if there is any: what was said may have moved it to the front. */
  next(avoid?: string): string {
    const candidate = this.#known[this.#next % this.#known.length] as string;
    this.#next = (this.#next + 1) % this.#known.length;
    if (candidate !== avoid || this.#known.length === 1) return candidate;
    return this.next(avoid);
  }
}
