/**
 * The servers that a worker knows: the configured ones and those that a server has announced. It uses them in turn,
 * starting with a random one, so that many workers spread over the servers.
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

  /** Replaces the servers that were announced before. */
  learn(urls: readonly string[]): void {
    const known = new Set(this.#configured);
    for (const url of urls) {
      if (known.size >= MAX_SERVERS) break;
      try {
        known.add(normalUrl(url));
      } catch {
        // An address that this worker cannot use; the others are still valid.
      }
    }
    this.#known = [...known];
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
