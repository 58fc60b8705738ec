import { ERRORS, ROUTES, type Route } from '@drover/protocol';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApiDocument } from '../../src/api/openapi.js';
import { type ApiBench, createApiBench } from './api-bench.js';

type Operation = {
  operationId: string;
  security?: unknown[];
  requestBody?: unknown;
  parameters: { name: string; in: string }[];
  responses: Record<string, unknown>;
};
type Document = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { properties?: Record<string, unknown> }> };
};

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench();
});
afterAll(() => api.close());

const document: Document = JSON.parse(String(openApiDocument().text));

test('the document is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  expect(await validator.validate(JSON.parse(JSON.stringify(document)))).toEqual({ valid: true });
  expect(validator.version).toBe('3.1');
});

test('the server answers with it', async () => {
  expect((await api.call('/api/v1/openapi.json')).body).toEqual(JSON.parse(JSON.stringify(document)));
});

test.each(Object.entries(ROUTES as Record<string, Route>))('%s is in it with all that it takes', (name, route) => {
  const operation = document.paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.[route.method.toLowerCase()];
  expect(operation?.operationId).toBe(name);
  expect(operation?.requestBody !== undefined).toBe((route.body ?? route.bodyType) !== undefined);
  expect(operation?.responses[String(route.status ?? 200)]).toBeDefined();
  expect(operation?.security).toEqual(route.roles === 'anyone' ? [] : undefined);
  const expected = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name);
  expect(operation?.parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)).toEqual(
    expected,
  );
});

test('a route says which of its errors are about what it names, and whether it needs a body', () => {
  const operation = (name: string) =>
    Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .find(({ operationId }) => operationId === name) as Operation;
  const errorsOf = (name: string) => JSON.stringify(operation(name).responses);
  expect(errorsOf('pauseWorker')).toContain('worker_not_found');
  expect(errorsOf('pauseWorker')).not.toContain('job_not_found');
  expect(errorsOf('cancelJob')).toContain('job_not_found');
  expect(errorsOf('listJobs')).toContain('invalid_cursor');
  expect(errorsOf('enqueueJob')).not.toContain('invalid_cursor');
  expect(operation('enqueueJob').requestBody).toMatchObject({ required: true });
  expect(operation('pauseWorker').requestBody).toMatchObject({ required: false });
  for (const name of ['enqueueJobs', 'enqueueBulk']) expect(errorsOf(name)).toContain('batch_too_large');
  const content = { 'application/x-ndjson': { schema: { type: 'string' } } };
  expect(operation('enqueueBulk').requestBody).toEqual({ required: true, content });
});

test('every reference leads somewhere', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)];
  expect(references.length).toBeGreaterThan(10);
  for (const [, name] of references) expect(Object.keys(document.components.schemas)).toContain(name);
});

test('what is special about durations, times and ids is said', () => {
  const { Duration, Time, Id, NewJob } = document.components.schemas;
  expect(Duration).toMatchObject({ anyOf: [{ type: 'string' }, { type: 'number' }] });
  expect([Time, Id]).toMatchObject([{ format: 'date-time' }, { format: 'uuid' }]);
  expect(NewJob?.properties).toMatchObject({
    timeout: { $ref: '#/components/schemas/Duration' },
    runAt: { $ref: '#/components/schemas/Time' },
    id: { $ref: '#/components/schemas/Id' },
  });
});

test('every error code is in the error schema', () => {
  expect(document.components.schemas.Error?.properties?.error).toMatchObject({
    properties: { code: { enum: Object.keys(ERRORS) } },
  });
});
