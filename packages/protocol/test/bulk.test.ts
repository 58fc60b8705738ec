import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type BulkJob, DroverError, LIMITS, newId, readBulk, writeBulk } from '../src/index.js';

/** The inside of a head: what `encodeJob` of the SDK writes. */
const headOf = (job: object): string => JSON.stringify(job).slice(1, -1);

const heads = fc.record(
  {
    type: fc.constantFrom('a', 'b.c', 'payload', 'ids'),
    queue: fc.constantFrom('q', 'mail'),
    priority: fc.integer({ min: -1000, max: 1000 }),
    delay: fc.nat({ max: 1e9 }),
    tags: fc.array(fc.constantFrom('x', ',"ids":', '{"ids":["', 'x y', 'é🐑', '\u2028', '\\n'), { maxLength: 3 }),
    backoff: fc.constant({ kind: 'fixed', delay: 1000, jitter: 0 }),
  },
  { requiredKeys: ['type'] },
);
const jobs = fc.record({
  id: fc.uuid(),
  head: heads,
  payload: fc.oneof(
    fc.json({ stringUnit: 'binary' }),
    fc.constantFrom('{"a": [1, 2]}', '1e400', '"\\u0000\\ud800"', '"a\\nb"', '[1,\t2]\r', '"\u2028\u2029\u0085"'),
  ),
});
/** Runs of jobs with the same head, as a client sends them, and single ones. */
const batches = fc
  .array(fc.record({ first: jobs, others: fc.array(jobs, { maxLength: 4 }) }), { maxLength: 5 })
  .map((groups) =>
    groups.flatMap(({ first, others }) => [first, ...others.map((job) => ({ ...job, head: first.head }))]),
  );

describe('a body that was written', () => {
  test('is read as it was meant', () => {
    fc.assert(
      fc.property(batches, (given) => {
        const written = writeBulk(given.map(({ id, head, payload }) => ({ id, head: headOf(head), payload })));
        const read = readBulk(written).flatMap(({ head: { ids, ...head }, payloads }) => {
          expect(payloads).toHaveLength(ids.length);
          return ids.map((id, place) => ({ id, head, payload: payloads[place] }));
        });
        expect(read).toEqual(given);
      }),
      { numRuns: 1000 },
    );
  });

  test('has one head line for jobs in a row with the same head', () => {
    const [mail, report] = [headOf({ type: 'mail', queue: 'q' }), headOf({ type: 'report' })];
    const ids = Array.from({ length: 4 }, () => newId());
    const made = [mail, mail, report, mail].map(
      (head, place): BulkJob => ({ id: `${ids[place]}`, head, payload: `${place}` }),
    );
    expect(writeBulk(made)).toBe(
      [
        `{"type":"mail","queue":"q","ids":["${ids[0]}","${ids[1]}"]}`,
        '0',
        '1',
        `{"type":"report","ids":["${ids[2]}"]}`,
        '2',
        `{"type":"mail","queue":"q","ids":["${ids[3]}"]}`,
        '3',
      ].join('\n'),
    );
  });
});

const ID = '01890000-0000-7000-8000-000000000000';
const head = (fields: object = {}) => JSON.stringify({ type: 'a', ids: [ID], ...fields });

describe('reading', () => {
  test('takes a line break after the last payload', () => {
    const groups = [{ head: { type: 'a', ids: [ID] }, payloads: ['1'] }];
    expect(readBulk(`${head()}\n1`)).toEqual(groups);
    expect(readBulk(`${head()}\n1\n`)).toEqual(groups);
    expect(readBulk(`${head()}\n1\n${head()}\n1\n`)).toEqual([...groups, ...groups]);
    expect(readBulk('')).toEqual([]);
  });

  test('takes options as people write them, and ids in capitals', () => {
    const [group] = readBulk(
      `${head({ delay: '2m', expiresAt: '2030-01-31T12:00:00+01:00', ids: [ID.toUpperCase()] })}\n1`,
    );
    expect(group?.head).toEqual({ type: 'a', delay: 120_000, expiresAt: '2030-01-31T11:00:00.000Z', ids: [ID] });
  });

  test('leaves payloads unread, also those that are not JSON', () => {
    const payloads = ['1,2', 'nothing', ' ', '{"type":"a"}', '\r', '['.repeat(5000)];
    const ids = payloads.map(() => ID);
    expect(readBulk([head({ ids }), ...payloads].join('\n'))[0]?.payloads).toEqual(payloads);
  });

  test('takes no field from a prototype', () => {
    const [group] = readBulk(`{"type":"a","ids":["${ID}"]}\n{"__proto__":{"queue":"other"}}`);
    expect(group?.head.queue).toBeUndefined();
    expect(() => readBulk(`{"type":"a","ids":["${ID}"],"__proto__":{"queue":"other"}}\n1`)).toThrow(
      'jobs[0]: unknown field "__proto__"',
    );
  });
});

describe('a body is refused', () => {
  const good = [head({ ids: [ID, ID, ID] }), '1', '2', '3'];
  const errorFor = (...lines: string[]): DroverError => {
    try {
      readBulk(lines.join('\n'));
    } catch (error) {
      if (error instanceof DroverError) return error;
      throw error;
    }
    throw new Error('it was taken');
  };
  const issue = (field: string, message: string, value?: string) => ({
    issues: [{ field, message, ...(value !== undefined && { value }) }],
  });

  test.each([
    ['{"type":', 'Unexpected end of JSON input'],
    ['', 'Unexpected end of JSON input'],
    ['nothing', `Unexpected token 'o', "nothing" is not valid JSON`],
  ])('for the head line %j', (line, reason) => {
    expect(errorFor(...good, line, '4')).toMatchObject({
      code: 'invalid_json',
      message: `the head line of jobs[3] is not valid JSON: ${reason}`,
    });
  });

  test.each([
    [{ queue: 'a b' }, 'jobs[3].queue', /^expected a name of letters/, '"a b"'],
    [{ delay: 'soon' }, 'jobs[3].delay', /^expected a duration such as "30s"/, '"soon"'],
    [{ backoff: { kind: 'list', delays: ['1s', 'x'] } }, 'jobs[3].backoff.delays[1]', /^expected a duration/, '"x"'],
    [{ priority: 1001 }, 'jobs[3].priority', /^expected at most 1000$/, '1001'],
    [{ ids: [] }, 'jobs[3].ids', /^expected at least 1 item$/, '[]'],
    [{ ids: ['mine'] }, 'jobs[3].ids[0]', /^expected a UUID$/, '"mine"'],
    [{ ids: undefined }, 'jobs[3].ids', /^expected a list, got nothing$/, undefined],
    [{ id: ID }, 'jobs[3]', /^unknown field "id"$/, undefined],
    [{ payload: 1 }, 'jobs[3]', /^unknown field "payload"$/, undefined],
    [{ colour: 'red' }, 'jobs[3]', /^unknown field "colour"$/, undefined],
    [{ type: undefined }, 'jobs[3].type', /expected a string, got nothing/, undefined],
    [
      { delay: 1, runAt: '2030-01-31T12:00:00Z' },
      'jobs[3].runAt',
      /^expected either delay or runAt, not both$/,
      '"2030-01-31T12:00:00Z"',
    ],
  ])('for a head with %j, and names the first job of the head', (fields, field, message, value) => {
    const error = errorFor(...good, head(fields), '4');
    expect(error.code).toBe('invalid_request');
    expect(error.message.startsWith(`${field}: `)).toBe(true);
    const [found] = (error.details as { issues: { field: string; message: string; value?: unknown }[] }).issues;
    expect(found).toMatchObject({ field, message: expect.stringMatching(message) });
    expect(found?.value).toEqual(value);
  });

  test.each([['5'], ['"a"'], ['null'], ['[1]'], ['1']])('for the head %s, which is not an object', (line) => {
    const error = errorFor(...good, line, '4');
    expect(error.code).toBe('invalid_request');
    expect(error.message).toBe(`jobs[3]: expected an object, got ${line}`);
  });

  test.each([
    ['that has too few payloads', [head({ ids: [ID, ID] }), '4'], 4],
    ['that has no payload', [head()], 3],
    ['that has an empty payload', [head({ ids: [ID, ID] }), '', '5'], 3],
    ['whose last payload is empty', [head({ ids: [ID, ID] }), '4', ''], 4],
  ])('for a head %s', (_, lines, place) => {
    const [field, message] = [`jobs[${place}].payload`, 'expected a line of JSON text for each id of its head line'];
    expect(errorFor(...good, ...lines)).toMatchObject({
      code: 'invalid_request',
      message: `${field}: ${message}`,
      details: issue(field, message),
    });
  });

  test('for more jobs than a batch may have, under one head or under several', () => {
    const half = (count: number) => [head({ ids: Array(count).fill(ID) }), ...Array(count).fill('1')];
    const most = LIMITS.batchJobs;
    expect(readBulk(half(most).join('\n'))[0]?.payloads).toHaveLength(most);
    for (const body of [[...half(most), ...half(1)], half(most + 1)]) {
      expect(errorFor(...body)).toMatchObject({
        code: 'batch_too_large',
        message: 'jobs: expected at most 10000 jobs in one request, got 10001 or more',
        details: { limit: most },
      });
    }
  });
});
