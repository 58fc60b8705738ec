/** What verbs return, against the table of moves. */
import { type JobState, MOVES } from '@drover/protocol';
import { expect } from 'vitest';
import type { Change } from '../../src/lifecycle/change.js';

/** The ids of the changes; of those that lead to `to`, if given. Fails if one is not in the table of moves. */
export function idsOf(changes: readonly Change[], to?: JobState): string[] {
  for (const change of changes) checkMove(change);
  return changes.filter((change) => to === undefined || change.to === to).map(({ id }) => id);
}

function checkMove(change: Change): void {
  const { from, to, verb, type, queue, attempt, dueInMs, stop } = change;
  expect([typeof type, typeof queue, Number.isInteger(attempt)]).toEqual(['string', 'string', true]);
  expect(dueInMs !== undefined, `${verb} to ${to} with the time until it is due: ${dueInMs}`).toBe(to === 'scheduled');
  if (stop) expect({ verb, from, to }).toMatchObject({ from: 'running', to: 'running' });
  else
    expect([MOVES[verb].from, MOVES[verb].to]).toEqual([expect.arrayContaining([from]), expect.arrayContaining([to])]);
}
