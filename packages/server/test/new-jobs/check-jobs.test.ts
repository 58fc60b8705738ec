import { jsonShape, LIMITS, newId } from '@drover/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkedJob, checkedJobs, checkJobs } from '../../src/new-jobs/check-jobs.js';
import type { JobToInsert } from '../../src/new-jobs/job-to-insert.js';
import { NO_TYPES } from '../../src/new-jobs/known-types.js';

const limits = { payloadLimitBytes: 1000, nowMs: Date.now(), types: NO_TYPES };
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const jobOf = (payload: string, id = newId()): JobToInsert => ({
  ...{ id, payload },
  ...{ type: 'a', queue: undefined, options: undefined, complete: true },
});

/** How deep a value is nested. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

describe('the depth of JSON text', () => {
  const values = fc.jsonValue({ depthSize: 'large', stringUnit: 'binary' });
  const brackets = fc.string({ unit: fc.constantFrom('[', ']', '{', '}', '"', '\\', 'a') });
  const withBrackets = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      brackets,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(brackets, tie('value'), { maxKeys: 3 }),
    ),
  })).value;

  test.each([
    ['any value', values],
    ['strings and keys full of brackets, quotes and backslashes', withBrackets],
  ])('is that of the value: %s', (_, arbitrary) => {
    fc.assert(
      fc.property(arbitrary, fc.constantFrom(undefined, 2, '\t'), (value, space) => {
        const text = JSON.stringify(value, undefined, space);
        expect(jsonShape(text).depth).toBe(depthOf(JSON.parse(text)));
      }),
      { numRuns: 1000 },
    );
  });

  test('of text that is not JSON is some number', () => {
    fc.assert(fc.property(brackets, (text) => jsonShape(text).depth >= 0));
  });
});

describe('a job', () => {
  const ahead = (ms: number) => {
    const time = (limits.nowMs + ms).toString(16).padStart(12, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
  };
  const HOUR_MS = 3_600_000;

  test('is taken up to each limit', () => {
    const payload = (text: string) => `"${text}"`;
    const good = [
      jobOf(payload('x'.repeat(998))),
      jobOf(payload('é'.repeat(499))),
      jobOf(payload('€'.repeat(332))),
      jobOf(nested(500)),
      jobOf('1', ahead(23 * HOUR_MS)),
      // only a UUIDv7 has a time
      jobOf('1', 'ffffffff-ffff-4fff-8fff-ffffffffffff'),
    ];
    checkJobs(good, limits);
    checkJobs([jobOf(nested(LIMITS.payloadDepth))], { ...limits, payloadLimitBytes: 10_000 });
  });

  const refused: [what: string, job: JobToInsert, code: string, message: string | RegExp][] = [
    [
      'with too large a payload',
      jobOf(`"${'é'.repeat(500)}"`),
      'payload_too_large',
      'jobs[1].payload: expected at most 1000 bytes of JSON, got 1002',
    ],
    [
      'with too deep a payload',
      jobOf(nested(LIMITS.payloadDepth + 1)),
      'invalid_request',
      'jobs[1].payload: expected JSON of at most 1000 levels',
    ],
    [
      'with an id of the future',
      jobOf('1', ahead(25 * HOUR_MS)),
      'invalid_request',
      /^jobs\[1\]\.id: its time is more than a day ahead: .*, got "[0-9a-f-]{36}"$/,
    ],
  ];
  test.each(refused)('%s is refused with its place', (_, job, code, message) => {
    const given = { ...limits, payloadLimitBytes: code === 'payload_too_large' ? 1000 : 10_000 };
    const check = () => checkJobs([jobOf('1'), job], given);
    expect(check).toThrow(message);
    expect(check).toThrow(expect.objectContaining({ code }));
  });

  test('that came as JSON is checked as the text that is stored', () => {
    const [first, second] = checkedJobs([{ type: 'a' }, { type: 'b', payload: { a: 1 }, priority: 3 }], limits);
    const plain = { queue: undefined, complete: false };
    expect(first).toEqual({ ...plain, id: first?.id, type: 'a', payload: 'null', options: undefined });
    expect(second).toEqual({
      ...plain,
      id: second?.id,
      type: 'b',
      payload: '{"a":1}',
      options: { priority: 3 },
    });
    // 1e20 takes four characters as it was sent and 21 as it is stored
    expect(() => checkedJob({ type: 'a', payload: Array(50).fill(1e20) }, limits)).toThrow(
      'payload: expected at most 1000 bytes of JSON, got 1101',
    );
  });

  test('that came as JSON of absurd depth is refused as too deep', () => {
    const payload: unknown = JSON.parse(nested(200_000));
    expect(() => checkedJob({ type: 'a', payload }, limits)).toThrow('payload: expected JSON of at most 1000 levels');
    expect(() => checkedJobs([{ type: 'a' }, { type: 'a', payload }], limits)).toThrow(
      'jobs[1].payload: expected JSON',
    );
  });
});
