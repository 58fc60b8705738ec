/**
 * The format of a journal file: records, each one batch of entries that became durable together. Pure.
 *
 *   D1 <sequence> <length> <checksum of the body> <checksum of this line>\n   numbers in 8 hexadecimal digits
 *   <body: entries, one JSON array per line>
 *
 * The first record holds the file's id. The id and the sequence go into every later checksum. So a record from
 * another file, from an earlier use of the same disk block or in the wrong place is invalid.
 *
 * Invariant: only the last record can have been incomplete when the machine stopped, because each record is durable
 * before the next is written. So a file that ends too early, or in never-written blocks that read as zeros, has a
 * torn end, and that end was never acknowledged. Anything else that does not fit is damage.
 */
import { crc32 } from 'node:zlib';

export const JOURNAL_VERSION = 2;

const HEADER = /^D1 ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\n$/;
const HEADER_BYTES = 39;
const MAGIC = Buffer.from('D1 ');
/** The smallest unit that a disk writes. */
const SECTOR_BYTES = 512;

/** The file differs from what was written. `at` is the byte where that begins. */
export type Damage = { at: number; reason: string };

export type ReadJournal = {
  /** Bodies of all complete records except the first, also of those after damage. */
  bodies: string[];
  version: number;
  /** Bytes at the end that were being written when the process or the machine stopped. */
  tornBytes: number;
  damage: Damage | undefined;
};

/** Creates the records of one file, in order. */
export class RecordWriter {
  readonly #seed: number;
  #sequence = 0;
  /** The first record of a new file. */
  readonly first: Buffer;

  constructor(fileId: string, version = JOURNAL_VERSION) {
    this.#seed = crc32(fileId);
    this.first = this.#record(`${JSON.stringify(['journal', version, fileId])}\n`, 0);
  }

  next(body: string): Buffer {
    return this.#record(body, this.#seed);
  }

  #record(body: string, seed: number): Buffer {
    const bytes = Buffer.from(body);
    const start = `D1 ${hex(this.#sequence++)} ${hex(bytes.length)} ${hex(crc32(bytes, seed))}`;
    return Buffer.concat([Buffer.from(`${start} ${hex(crc32(start, seed))}\n`), bytes]);
  }
}

type Step = { body: string; end: number } | { torn: true } | { damage: string };

export function readJournal(bytes: Buffer): ReadJournal {
  const first = readRecord(bytes, 0, 0, 0);
  const identity = 'body' in first ? identityOf(first.body) : undefined;
  if (!('body' in first) || identity === undefined) {
    // The file was complete before it was renamed, so this is never a torn end.
    return {
      bodies: [],
      version: 0,
      tornBytes: 0,
      damage: { at: 0, reason: 'the file does not begin with the header of a journal' },
    };
  }
  const bodies: string[] = [];
  const seed = crc32(identity.fileId);
  let damage: Damage | undefined;
  let at = first.end;
  let sequence = 1;
  while (at < bytes.length) {
    const step = readRecord(bytes, at, sequence, seed);
    if ('body' in step) {
      bodies.push(step.body);
      at = step.end;
      sequence++;
      continue;
    }
    if ('torn' in step && damage === undefined) break;
    damage ??= { at, reason: 'damage' in step ? step.damage : 'the bytes after the damage are truncated' };
    const next = findRecord(bytes, at + 1, seed);
    if (next === undefined) return { bodies, version: identity.version, tornBytes: 0, damage };
    at = next.at;
    sequence = next.sequence;
  }
  return { bodies, version: identity.version, tornBytes: damage === undefined ? bytes.length - at : 0, damage };
}

/** The record that must begin here, or the reason why it is invalid. */
function readRecord(bytes: Buffer, at: number, sequence: number, seed: number): Step {
  const header = readHeader(bytes, at, seed);
  if (header === undefined) {
    const isTorn = bytes.length - at < HEADER_BYTES || endsUnwritten(bytes, at);
    return isTorn ? { torn: true } : { damage: 'the header of a record is damaged' };
  }
  if (header.sequence !== sequence) return { damage: `record ${sequence} is missing` };
  const start = at + HEADER_BYTES;
  const end = start + header.length;
  if (end > bytes.length) return { torn: true };
  const body = bytes.subarray(start, end);
  if (crc32(body, seed) === header.checksum) return { body: body.toString(), end };
  return endsUnwritten(bytes, at) ? { torn: true } : { damage: `record ${sequence} is damaged` };
}

function readHeader(
  bytes: Buffer,
  at: number,
  seed: number,
): { sequence: number; length: number; checksum: number } | undefined {
  const line = bytes.toString('latin1', at, at + HEADER_BYTES);
  const parts = HEADER.exec(line)
    ?.slice(1)
    .map((digits) => Number.parseInt(digits, 16));
  if (parts === undefined) return undefined;
  const [sequence, length, checksum, ownChecksum] = parts as [number, number, number, number];
  const start = line.slice(0, line.lastIndexOf(' '));
  return crc32(start, seed) === ownChecksum ? { sequence, length, checksum } : undefined;
}

/** The next complete record after damage. */
function findRecord(bytes: Buffer, from: number, seed: number): { at: number; sequence: number } | undefined {
  for (let at = bytes.indexOf(MAGIC, from); at !== -1; at = bytes.indexOf(MAGIC, at + 1)) {
    const header = readHeader(bytes, at, seed);
    if (header !== undefined && 'body' in readRecord(bytes, at, header.sequence, seed)) {
      return { at, sequence: header.sequence };
    }
  }
  return undefined;
}

/** Whether everything from here on, or from the beginning of a later sector on, was never written. */
function endsUnwritten(bytes: Buffer, at: number): boolean {
  let zerosFrom = bytes.length;
  while (zerosFrom > at && bytes[zerosFrom - 1] === 0) zerosFrom--;
  if (zerosFrom === at) return true;
  const lastSector = Math.floor((bytes.length - 1) / SECTOR_BYTES) * SECTOR_BYTES;
  return lastSector > at && zerosFrom <= lastSector;
}

function identityOf(body: string): { version: number; fileId: string } | undefined {
  const [kind, version, fileId] = JSON.parse(body) as unknown[];
  if (kind !== 'journal' || typeof version !== 'number' || typeof fileId !== 'string') return undefined;
  return { version, fileId };
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}
