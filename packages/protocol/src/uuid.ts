/**
 * UUIDv7: 48 bits of time, then random. Ids made by one process are strictly increasing (a counter
 * takes the place of the first random bits inside one millisecond), so a batch keeps its order and the
 * primary key grows at its right edge.
 */
const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const RANDOM_POOL_BYTES = 8192;
const RANDOM_BYTES_PER_ID = 8;
const COUNTER_MAX = 0xfff;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Makes a generator. `now` gives milliseconds since 1970; time going back never repeats an id. */
export function createIdGenerator(now: () => number = Date.now): () => string {
  const pool = new Uint8Array(RANDOM_POOL_BYTES);
  let used = RANDOM_POOL_BYTES;
  let lastMs = 0;
  let counter = 0;

  return () => {
    if (used + RANDOM_BYTES_PER_ID > RANDOM_POOL_BYTES) {
      globalThis.crypto.getRandomValues(pool);
      used = 0;
    }
    const ms = now();
    if (ms > lastMs) {
      lastMs = ms;
      counter = (pool[used] as number) & 0x7f;
    } else if (++counter > COUNTER_MAX) {
      lastMs += 1;
      counter = 0;
    }
    const time = lastMs.toString(16).padStart(12, '0');
    const count = counter.toString(16).padStart(3, '0');
    const byte = (offset: number) => HEX[pool[used + offset] as number] as string;
    const variant = HEX[((pool[used] as number) & 0x3f) | 0x80] as string;
    const id = `${time.slice(0, 8)}-${time.slice(8)}-7${count}-${variant}${byte(1)}-${byte(2)}${byte(3)}${byte(4)}${byte(5)}${byte(6)}${byte(7)}`;
    used += RANDOM_BYTES_PER_ID;
    return id;
  };
}

export const newId = createIdGenerator();

export function isUuid(text: string): boolean {
  return UUID_PATTERN.test(text);
}
