/** The rule by which the fault suite accepts unknown jobs: what it lets pass, and that it lets nothing else pass. */
import { describe, expect, test } from 'vitest';
import { DURABLE_WITHIN_MS, judgeUnknown, type LastGrant } from './unknown-jobs.js';

const KILLED_AT = 100_000;
const grantee = { unit: 'worker1', ending: 'SIGKILL', exitedAt: KILLED_AT, pauses: [] };
const left = { ...grantee, ending: 'code 0' };
const judge = (given: Partial<LastGrant>, hold = true) =>
  judgeUnknown({ hold }, { grantee, run: undefined, isNamed: false, brokenAt: undefined, ...given });
const ended = (msBefore: number) => ({ end: 'ok' as const, to: KILLED_AT - msBefore });
const died = { end: undefined, to: KILLED_AT };

describe('an unknown job is accepted', () => {
  test('that died in the middle', () => expect(judge({ run: died })).toBe('died'));
  test('that had just ended when its process was killed', () =>
    expect(judge({ run: ended(50) })).toBe('end not durable'));
  test('not counting the time in which the process stood still', () => {
    const pauses = [{ from: KILLED_AT - 60_000, to: KILLED_AT - 100 }];
    expect(judge({ run: ended(60_050), grantee: { ...grantee, pauses } })).toBe('end not durable');
  });
  test('that never ran, but a journal named it and its process was killed', () => {
    expect(judge({ isNamed: true })).toBe('named');
  });
  test('whose worker never comes back', () => {
    expect(judge({ brokenAt: KILLED_AT })).toBe('never back');
    expect(judge({ brokenAt: KILLED_AT, run: died })).toBe('never back');
    expect(judge({ brokenAt: KILLED_AT, run: ended(50) })).toBe('never back');
  });
});

describe('an unknown job is not accepted', () => {
  test.each<[string, Partial<LastGrant>, boolean?]>([
    ['that is not to be held', { run: died }, false],
    ['that never ran and no journal named', {}],
    ['that never ran, though named, if its process left in good order', { isNamed: true, grantee: left }],
    ['that a process left running which had waited for its handlers', { run: died, grantee: left }],
    ['that had ended long before its process was killed', { run: ended(DURABLE_WITHIN_MS + 1) }],
    ['that had ended long before its worker broke for ever', { run: ended(60_000), brokenAt: KILLED_AT }],
    ['that had ended in a process which left in good order', { run: ended(50), grantee: left }],
    ['whose last grant was for nobody that is known', { grantee: undefined, isNamed: true }],
    ['whose process lives', { run: died, grantee: { ...grantee, ending: undefined } }],
  ])('%s', (_, given, hold) => {
    expect(judge(given, hold)).toBe('unheld');
  });
});
