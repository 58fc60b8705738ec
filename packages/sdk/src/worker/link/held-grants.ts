/**
 * The grants that the main thread holds, as far as the link thread knows: for the hello on a new connection while the
 * main thread is blocked.
 *
 * It is the main thread's last report plus all assignments since. It may contain too much (finished and acknowledged
 * jobs), which is harmless: the server answers that they are no longer the worker's. It never contains too little: an
 * omitted job would be given to another worker while it runs here.
 */
import type { Grant } from '@drover/protocol';

/** Characters of assignments that are kept before the main thread is asked again. */
const MAX_KEPT_LENGTH = 4 * 1024 * 1024;

export class HeldGrants {
  /** A JSON array. It and the frames are stored unparsed, because they are rarely needed. */
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

  /** Returns the number of kept frames when it is time to ask the main thread. Answer with `tell`. */
  ask(isBeat: boolean): number | undefined {
    if (this.#isAsked || this.#frames.length === 0) return undefined;
    if (!isBeat && this.#length < MAX_KEPT_LENGTH) return undefined;
    this.#isAsked = true;
    return this.#frames.length;
  }

  /** Records what the main thread holds after the first `frames` frames. */
  tell(said: string, frames: number): void {
    this.#isAsked = false;
    this.#said = said;
    this.#frames = this.#frames.slice(frames);
    this.#length = this.#frames.reduce((sum, frame) => sum + frame.length, 0);
  }

  /** Records what the main thread holds while no connection is open. */
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
