import { expect, it } from 'vitest';
import { HeldGrants } from '../../../src/worker/link/held-grants.js';

const grant = (id: string) => ({ id, fence: 1 });
const frame = (...ids: string[]) => JSON.stringify({ kind: 'assign', jobs: ids.map((id) => ({ ...grant(id), n: 1 })) });

it('knows what the main thread said and everything assigned since', () => {
  const held = new HeldGrants(JSON.stringify([grant('a')]));
  held.assigned(frame('b', 'c'));
  expect(held.ask(true)).toBe(1);
  expect(held.ask(true)).toBeUndefined();
  held.assigned(frame('d'));
  expect(held.grants()).toEqual(['a', 'b', 'c', 'd'].map(grant));
  held.tell(JSON.stringify([grant('c')]), 1);
  expect(held.grants()).toEqual(['c', 'd'].map(grant));
});

it('asks between beats only when it keeps much', () => {
  const held = new HeldGrants('[]');
  held.assigned(frame('a'));
  expect(held.ask(false)).toBeUndefined();
  held.assigned(frame('b'.repeat(5_000_000)));
  expect(held.ask(false)).toBe(2);
});
