import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecordWriter, readJournal } from '../../../src/worker/journal/records.js';

function fileOf(bodies: readonly string[], fileId = 'file-1'): { bytes: Buffer; ends: number[] } {
  const writer = new RecordWriter(fileId);
  const records = [writer.first, ...bodies.map((body) => writer.next(body))];
  let end = 0;
  const ends = records.map((record) => {
    end += record.length;
    return end;
  });
  return { bytes: Buffer.concat(records), ends };
}

const BODIES = ['["started","a",1]\n', '["finished",{"id":"a","text":"größer"}]\n["acknowledged","a",1]\n', '["x"]\n'];
const bodiesArbitrary = fc.array(fc.string({ unit: 'grapheme', maxLength: 600 }), { minLength: 1, maxLength: 5 });

describe('a journal file', () => {
  it('gives back what was written', () => {
    fc.assert(
      fc.property(bodiesArbitrary, (bodies) => {
        const { bytes } = fileOf(bodies);
        expect(readJournal(bytes)).toMatchObject({ bodies, version: 2, tornBytes: 0, damage: undefined });
      }),
    );
  });

  it('cut off at any byte of its last record is torn there, and all before it is whole', () => {
    fc.assert(
      fc.property(bodiesArbitrary, (bodies) => {
        const { bytes, ends } = fileOf(bodies);
        const lastStart = ends.at(-2) as number;
        for (let length = lastStart; length < bytes.length; length++) {
          const { bodies: read, tornBytes, damage } = readJournal(bytes.subarray(0, length));
          expect({ read, tornBytes, damage }).toEqual({
            read: bodies.slice(0, -1),
            tornBytes: length - lastStart,
            damage: undefined,
          });
        }
      }),
      { numRuns: 20 },
    );
  });

  it('whose last record was not written though the file had grown is torn there', () => {
    const { bytes, ends } = fileOf(['["a"]\n', `["${'b'.repeat(2000)}"]\n`]);
    const lastStart = ends.at(-2) as number;
    for (const from of [lastStart, 512, 1024, 1536]) {
      const unwritten = Buffer.from(bytes).fill(0, from);
      expect(readJournal(unwritten)).toMatchObject({ bodies: ['["a"]\n'], damage: undefined });
    }
  });

  it('with any bit changed is reported as damaged, and every other record is still read', () => {
    const { bytes, ends } = fileOf(BODIES);
    for (let at = 0; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const changed = Buffer.from(bytes);
        changed.writeUInt8(changed.readUInt8(at) ^ (1 << bit), at);
        const { bodies, damage } = readJournal(changed);
        const hit = ends.findIndex((end) => at < end) - 1;
        expect(damage?.at, `byte ${at} bit ${bit}`).toBe(hit < 0 ? 0 : ends[hit]);
        expect(bodies).toEqual(hit < 0 ? [] : BODIES.filter((_, index) => index !== hit));
      }
    }
  });

  it('knows a record of another file, a repeated one and a missing one', () => {
    const { bytes, ends } = fileOf(BODIES);
    const [first, second, third] = [ends[0], ends[1], ends[2]] as [number, number, number];
    const foreign = fileOf(BODIES, 'file-2').bytes.subarray(first, second);
    expect(readJournal(Buffer.concat([bytes, foreign])).damage?.at).toBe(bytes.length);
    expect(readJournal(Buffer.concat([bytes, bytes.subarray(second, third)])).damage?.at).toBe(bytes.length);
    const missing = Buffer.concat([bytes.subarray(0, first), bytes.subarray(second)]);
    expect(readJournal(missing).damage).toEqual({ at: first, reason: 'record 1 is missing' });
  });

  it('that is empty or of another kind is damaged, never an empty journal', () => {
    expect(readJournal(Buffer.alloc(0)).damage).toBeDefined();
    expect(readJournal(Buffer.from('hello\n'.repeat(100))).damage).toBeDefined();
    expect(readJournal(Buffer.alloc(4096)).damage).toBeDefined();
  });
});
