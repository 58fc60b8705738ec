/** Requests of a hostile client to every route, beside those of an honest one. */
import { BULK_MEDIA_TYPE, bulkHeadSchema, ROUTES, type Route, storableText } from '@drover/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  FUZZ_TIMEOUT_MS,
  fuzz,
  hasCandidate,
  hostileText,
  inputOf,
  KNOWN_ID,
} from '../../../../test/support/hostile-input.js';
import { partsOf } from '../../../../test/support/walk-schema.js';
import { type ApiBench, createApiBench, errorOf } from '../api/api-bench.js';

let bench: ApiBench;
const problems: string[] = [];
beforeAll(async () => {
  bench = await createApiBench({}, (line) => problems.push(line));
});
afterAll(() => bench.close());

type Request = { method: string; path: string; body: string | undefined; mediaType: string };

const routes = Object.values(ROUTES) as readonly Route[];

function requestTo(route: Route): fc.Arbitrary<Request> {
  const none = fc.constant(undefined);
  return fc
    .record({
      params: route.params ? inputOf(route.params) : none,
      query: route.query ? inputOf(route.query) : none,
      body: route.bodyType === undefined ? jsonBody(route) : bulkBody,
    })
    .map(({ params, query, body }) => ({
      method: route.method,
      path: pathOf(route.path, params) + queryOf(query),
      body: route.method === 'GET' ? undefined : body,
      mediaType: route.bodyType ?? 'application/json',
    }));
}

function jsonBody({ body }: Route): fc.Arbitrary<string | undefined> {
  if (!body) return fc.constant(undefined);
  return fc.oneof(
    { weight: 8, arbitrary: inputOf(body).map((value) => JSON.stringify(value)) },
    { weight: 1, arbitrary: hostileText },
  );
}

const bulkBody = fc
  .tuple(inputOf(bulkHeadSchema), fc.array(hostileText, { maxLength: 3 }))
  .map(([head, payloads]) => [JSON.stringify(head), ...payloads].join('\n'));

function fieldsOf(input: unknown): [string, unknown][] {
  return typeof input === 'object' && input !== null ? Object.entries(input) : [];
}

function pathOf(path: string, params: unknown): string {
  const given = new Map(fieldsOf(params));
  return path.replace(/:([a-z]+)/g, (_, name: string) => encode(given.get(name) ?? KNOWN_ID));
}

function queryOf(query: unknown): string {
  const parts = fieldsOf(query).map(([name, value]) => `${encode(name)}=${encode(value)}`);
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

/** Shortened: Node refuses a longer address before it reaches a route. */
function encode(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return encodeURIComponent(storableText(text.slice(0, 2000)));
}

const request = fc.constantFrom(...routes).chain(requestTo);

async function send({ method, path, body, mediaType }: Request): Promise<string | undefined> {
  const answer = await bench.call(path, {
    method,
    ...(body !== undefined && { body, headers: { 'content-type': mediaType } }),
  });
  if (answer.status >= 500) return `${method} ${path}: ${answer.status} ${answer.text}`;
  if (answer.status >= 400) errorOf(answer);
  return undefined;
}

async function addHonestJob(): Promise<void> {
  const { status, text } = await bench.call('/api/v1/jobs', { method: 'POST', body: { type: 'honest' } });
  expect([status, text]).toEqual([201, text]);
}

test('the generator knows valid input for every part of a request', () => {
  const schemas = routes.flatMap(({ path, params, query, body }) =>
    [params, query, body].flatMap((schema) => (schema ? partsOf(schema, path) : [])),
  );
  const leaves = schemas.filter(({ kind }) => kind === 'leaf');
  expect(leaves.filter(({ schema }) => !hasCandidate(schema)).map(({ path }) => path)).toEqual([]);
  expect(BULK_MEDIA_TYPE).toBe(ROUTES.enqueueBulk.bodyType);
});

test(
  'whatever a client sends, it is served or told what is wrong, and others are served',
  async () => {
    const property = fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 8 }), async (requests) => {
      const [failures] = await Promise.all([Promise.all(requests.map(send)), addHonestJob()]);
      expect(failures.filter((failure) => failure !== undefined)).toEqual([]);
      expect(problems).toEqual([]);
    });
    await fuzz(property);
    for (const list of [
      'jobs?limit=1000&include=payload,result',
      'schedules?limit=1000',
      'queues',
      'pauses',
      'calendars',
      'stats',
    ]) {
      expect([list, (await bench.call(`/api/v1/${list}`)).status]).toEqual([list, 200]);
    }
  },
  FUZZ_TIMEOUT_MS,
);
