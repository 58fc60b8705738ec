import { newJobSchema } from '@drover/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseNewJob } from '../../src/api/parse-new-job.js';
import { bytesAtMost } from '../../src/lifecycle/check-new-jobs.js';

const anything = fc.jsonValue({ maxDepth: 2 });
const rightDuration = fc.constantFrom('30s', ' 10m', '2h', '3d', '1.5s', '0ms', 0, -0, 1, 1.4, 1.5, 1e9);
const rightName = fc.constantFrom('hello', 'a', 'a.b:c/d@e-f', '_', 'x'.repeat(128));

const right = {
  type: rightName,
  id: fc.oneof(
    fc.uuid(),
    fc.uuid().map((id) => id.toUpperCase()),
  ),
  payload: anything,
  queue: rightName,
  priority: fc.integer({ min: -1000, max: 1000 }),
  maxAttempts: fc.integer({ min: 1, max: 1000 }),
  timeout: rightDuration,
  retention: rightDuration,
  delay: rightDuration,
  tags: fc.array(fc.constantFrom('a', 'Zürich', 'x'.repeat(128)), { maxLength: 20 }),
  backoff: fc.oneof(
    fc.record(
      { kind: fc.constant('exponential'), base: rightDuration, factor: fc.constantFrom(1, 1.5, 10) },
      { requiredKeys: ['kind'] },
    ),
    fc.record(
      { kind: fc.constant('fixed'), delay: rightDuration, jitter: fc.constantFrom(0, 0.5, 1) },
      { requiredKeys: ['kind', 'delay'] },
    ),
    fc.record({ kind: fc.constant('list'), delays: fc.array(rightDuration, { minLength: 1, maxLength: 3 }) }),
  ),
  expiresAt: fc.constantFrom('2030-01-01T00:00:00Z', '2030-01-01T00:00:00.123+02:00'),
};

/** What a field may wrongly be, at the edges above all, and fields that a job has not. */
const wrong: [string, fc.Arbitrary<unknown>][] = [
  ['type', fc.constantFrom('', ' ', '-a', 'é', 'a\n', 'x'.repeat(129))],
  ['id', fc.constantFrom('', 'abc', '01234567-89ab-cdef-0123-456789abcdeg')],
  ['queue', fc.constantFrom('', 'a b', '/a')],
  ['priority', fc.constantFrom(-1001, 1001, 0.5, 1e300, '1')],
  ['maxAttempts', fc.constantFrom(0, 1001, 1.5, '1', true)],
  ['timeout', fc.constantFrom('10', '-1s', '1e3', '99999999999d', -1, Number.MAX_VALUE)],
  ['retention', fc.constantFrom('', 's', '1 s', '1S')],
  ['tags', fc.constantFrom('a', [''], ['\u0000'], ['\ud800'], ['x'.repeat(129)], Array(21).fill('a'), [1])],
  ['backoff', fc.constantFrom({ kind: 'fixed' }, { kind: 'list', delays: [] }, { kind: 'exponential', x: 1 }, {}, [])],
  ['runAt', fc.constantFrom('2030-01-01T00:00:00Z', 'soon', 5)],
  ['expiresAt', fc.constantFrom('0001-01-01T00:00:00Z', '2030-01-01', 0)],
  ['constructor', anything],
  ['toString', anything],
  ['hasOwnProperty', anything],
  ['other', anything],
];
const oneWrong = fc.oneof(
  ...wrong.map(([key, value]) => value.map((given) => [key, given] as const)),
  fc.tuple(fc.constantFrom(...Object.keys(right)), anything),
);

const rightJobs = fc.record(right, { requiredKeys: ['type'] });
const jobs = fc.oneof(
  rightJobs,
  fc.tuple(rightJobs, oneWrong).map(([job, [key, value]]) => ({ ...job, [key]: value })),
  anything,
);

describe('reading a new job the quick way', () => {
  test('gives what the schema gives, for whatever JSON a client can send', () => {
    let taken = 0;
    fc.assert(
      fc.property(jobs, (job) => {
        const text = JSON.stringify(job);
        const expected = newJobSchema.safeParse(JSON.parse(text));
        const given = parseNewJob(JSON.parse(text));
        expect(given).toEqual(expected.success ? expected.data : undefined);
        if (expected.success) taken += 1;
      }),
      { numRuns: 5000 },
    );
    // a test of refusals alone would prove nothing
    expect(taken).toBeGreaterThan(1000);
  });

  test('gives the same when it reads its own answer again', () => {
    fc.assert(
      fc.property(jobs, (job) => {
        const first = parseNewJob(JSON.parse(JSON.stringify(job)));
        if (first) expect(parseNewJob(structuredClone(first))).toEqual(first);
      }),
    );
  });

  test('takes no field from a prototype', () => {
    const job = parseNewJob(JSON.parse('{"type":"hello","__proto__":{"queue":"other"}}'));
    expect(job?.queue).toBeUndefined();
    expect(({} as { queue?: string }).queue).toBeUndefined();
  });
});

test('the guess at the size of a payload is never too small', () => {
  fc.assert(
    fc.property(fc.jsonValue({ depthSize: 'large', stringUnit: 'binary' }), (payload) => {
      const bytes = Buffer.byteLength(JSON.stringify(payload));
      expect(bytesAtMost(JSON.parse(JSON.stringify(payload)), 1000)).toBeGreaterThanOrEqual(bytes);
    }),
    { numRuns: 2000 },
  );
});
