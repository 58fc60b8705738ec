/**
 * The body of a request while it is written: bytes, in a buffer that grows. Texts are gathered for a while before they are
 * written, because each write has a price of its own.
 */
const FIRST_BYTES = 64 * 1024;
/** Characters. */
const GATHERED_LENGTH = 16 * 1024;
/** A character of a string takes up to three bytes in UTF-8. */
const BYTES_A_CHARACTER = 3;

export class RequestBody {
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #length = 0;
  #gathered: string;

  constructor(start: string) {
    this.#gathered = start;
  }

  add(text: string): void {
    this.#gathered += text;
    if (this.#gathered.length >= GATHERED_LENGTH) this.#write();
  }

  /** Whether the body with this text would have at most `limit` bytes. */
  hasRoomFor(text: string, limit: number): boolean {
    if (this.#length + BYTES_A_CHARACTER * (this.#gathered.length + text.length) <= limit) return true;
    this.#write();
    return this.#length + Buffer.byteLength(text) <= limit;
  }

  toBuffer(): Buffer {
    this.#write();
    return this.#buffer.subarray(0, this.#length);
  }

  #write(): void {
    const needed = this.#length + BYTES_A_CHARACTER * this.#gathered.length;
    if (needed > this.#buffer.length) this.#grow(needed);
    this.#length += this.#buffer.write(this.#gathered, this.#length);
    this.#gathered = '';
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#buffer.length));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}
