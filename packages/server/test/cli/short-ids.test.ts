import { idPrefixSchema, newId } from '@drover/protocol';
import { expect, it } from 'vitest';
import { idRange } from '../../src/base/id-range.js';
import { shortIds } from '../../src/cli/short-ids.js';

it('short ids are different, and as short as that allows', () => {
  expect(shortIds([])).toEqual([]);
  expect(shortIds(['0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c'])).toEqual(['0193f2a0']);
  expect(shortIds(['0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c', '0193f2a0-6c1e-7d2b-9a55-0c6f1b2e3d4c'])).toEqual([
    '0193f2a0-5',
    '0193f2a0-6',
  ]);
  const ids = Array.from({ length: 100 }, () => newId());
  const short = shortIds(ids);
  expect(new Set(short).size).toBe(100);
  for (const [index, one] of short.entries()) {
    expect(ids[index]?.startsWith(one)).toBe(true);
    expect(idPrefixSchema.parse(one)).toBe(one);
  }
});

it('a prefix is taken with hyphens and without them, and its range has the ids that begin with it', () => {
  const id = '0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c';
  for (let length = 6; length <= id.length; length++) {
    const prefix = idPrefixSchema.parse(id.slice(0, length).toUpperCase());
    expect(idPrefixSchema.parse(id.slice(0, length).replaceAll('-', ''))).toBe(prefix);
    expect(id.startsWith(prefix)).toBe(true);
    const [lowest, highest] = idRange(prefix);
    expect(lowest <= id && id <= highest).toBe(true);
    expect(lowest).toMatch(/^[0-9a-f-]{36}$/);
    expect(highest).toMatch(/^[0-9a-f-]{36}$/);
  }
  for (const wrong of ['', '0193f', 'order-4711', `${id}0`, 'g93f2a0', '0193 f2a0', '%']) {
    expect(idPrefixSchema.safeParse(wrong).success).toBe(false);
  }
});
