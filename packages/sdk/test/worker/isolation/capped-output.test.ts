import { expect, it } from 'vitest';
import { CappedOutput } from '../../../src/worker/isolation/capped-output.js';

const KIB = 1024;

it('keeps the beginning and the end, and counts what lies between', () => {
  const output = new CappedOutput();
  output.add(Buffer.alloc(16 * KIB, 'a'));
  for (let n = 0; n < 100; n++) output.add(Buffer.alloc(10 * KIB, 'b'));
  output.add(Buffer.from('the end'));
  expect(output.tail()).toMatch(/^b+the end$/);
  expect(output.take()).toMatch(/^a{16384}\n… 974855 bytes dropped …\nb{49145}the end$/);
  expect(output.isEmpty).toBe(true);
});

it('keeps all of what fits', () => {
  const output = new CappedOutput();
  output.add(Buffer.from('one '));
  output.add(Buffer.alloc(20 * KIB, 'x'));
  expect(output.take()).toBe(`one ${'x'.repeat(20 * KIB)}`);
});
