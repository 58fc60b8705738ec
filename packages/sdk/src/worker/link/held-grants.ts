/**
 * What the main thread holds, as far as the link thread knows: for the hello on a new connection while the
 * main thread is blocked and cannot be asked.
 *
 * It is what the main thread said last and everything assigned since. That may be too much (some of it is
 * finished and acknowledged), which is harmless: the server answers that it is no longer the worker's. It is
 * never too little: a job left out would be given to another worker while it runs here.
 */
import type { Grant } from '@drover/protocol';

/** Characters of assignments that are kept before the main thread is asked anew. */
const MAX_KEPT_LENGTH = 4 * 1024 * 1024;

export class HeldGrants {
  /** A JSON array. It and the frames are kept as they came: they are read only if needed, which is hardly ever. */
  #said: string;
  #frames: string[] = [];
  #length = 0;
  #isAsked = false;

  constructor(said: string) {
    this.#said = said;
  }

  assigned(frame: string): void {
    this.#frames.push(frame);
    this.#length += frame.length;
  }

  /** How many frames are kept, if it is time to ask the main thread; answer with `tell`. */
  ask(isBeat: boolean): number | undefined {
    if (this.#isAsked || this.#frames.length === 0) return undefined;
    if (!isBeat && this.#length < MAX_KEPT_LENGTH) return undefined;
    this.#isAsked = true;
    return this.#frames.length;
  }

  /** What the main thread holds after the first `frames` frames. */
  tell(said: string, frames: number): void {
    this.#isAsked = false;
    this.#said = said;
    this.#frames = this.#frames.slice(frames);
    this.#length = this.#frames.reduce((sum, frame) => sum + frame.length, 0);
  }

  /** What it holds now, with no connection that could bring more. */
  tellAll(said: string): void {
    this.tell(said, this.#frames.length);
  }

  grants(): Grant[] {
    const grants = JSON.parse(this.#said) as Grant[];
    for (const frame of this.#frames) {
      const { jobs } = JSON.parse(frame) as { jobs: Grant[] };
      for (const { id, fence } of jobs) grants.push({ id, fence });
    }
    return grants;
  }
}
