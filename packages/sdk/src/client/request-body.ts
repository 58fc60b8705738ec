/** The body of a request while it is written: bytes from the start, in a buffer that grows. */
const FIRST_BYTES = 64 * 1024;
/** A character of a string takes up to three bytes in UTF-8. */
const BYTES_A_CHARACTER = 3;

export class RequestBody {
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #length = 0;

  constructor(start: string) {
    this.add(start);
  }

  /** In bytes. */
  get length(): number {
    return this.#length;
  }

  add(text: string): void {
    const needed = this.#length + BYTES_A_CHARACTER * text.length;
    if (needed > this.#buffer.length) this.#grow(needed);
    this.#length += this.#buffer.write(text, this.#length);
  }

  /** Takes back what was added after this length. */
  cutTo(length: number): void {
    this.#length = length;
  }

  toBuffer(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#buffer.length));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}
