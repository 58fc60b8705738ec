/**
 * Keeps the beginning and the end of a process's output. All output is read, so that the process never blocks on a
 * full pipe; the middle is counted and dropped.
 */
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_TAIL_BYTES = 48 * 1024;

export class CappedOutput {
  #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #droppedBytes = 0;

  get isEmpty(): boolean {
    return this.#headBytes === 0;
  }

  add(chunk: Buffer): void {
    const room = MAX_HEAD_BYTES - this.#headBytes;
    if (room > 0) {
      const part = chunk.subarray(0, room);
      this.#head.push(part);
      this.#headBytes += part.length;
    }
    if (chunk.length <= room) return;
    const rest = chunk.subarray(Math.max(room, 0));
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    // Cut in bulk, so that many small writes do not cost a copy each.
    if (this.#tailBytes > 2 * MAX_TAIL_BYTES) this.#cutTail();
  }

  /** The end alone, for errors: the cause is usually in the last lines. */
  tail(): string {
    this.#cutTail();
    return Buffer.concat(this.#tailBytes > 0 ? this.#tail : this.#head).toString();
  }

  /** Returns what was kept and starts over for the next job. */
  take(): string {
    this.#cutTail();
    const head = Buffer.concat(this.#head).toString();
    const tail = Buffer.concat(this.#tail).toString();
    const gap = this.#droppedBytes === 0 ? '' : `\n… ${this.#droppedBytes} bytes dropped …\n`;
    this.#head = [];
    this.#tail = [];
    this.#headBytes = this.#tailBytes = this.#droppedBytes = 0;
    return head + gap + tail;
  }

  #cutTail(): void {
    if (this.#tailBytes <= MAX_TAIL_BYTES) return;
    const kept = Buffer.concat(this.#tail).subarray(-MAX_TAIL_BYTES);
    this.#droppedBytes += this.#tailBytes - kept.length;
    // Copied, because a slice would keep the whole original buffer in memory.
    this.#tail = [Buffer.from(kept)];
    this.#tailBytes = kept.length;
  }
}
