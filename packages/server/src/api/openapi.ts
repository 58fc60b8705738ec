/**
 * The API as an OpenAPI 3.1 document, generated from the table and schemas that the server runs on, so the two cannot
 * differ. OpenAPI 3.1 accepts JSON Schema.
 */
import {
  attemptSchema,
  backfilledSchema,
  backoffSchema,
  calendarSchema,
  durationSchema,
  ERRORS,
  type ErrorCode,
  enqueuedSchema,
  idSchema,
  jobErrorSchema,
  jobSchema,
  jobStateSchema,
  jobWithAttemptsSchema,
  listedJobSchema,
  nameSchema,
  newCalendarSchema,
  newJobSchema,
  newRunSchema,
  newScheduleSchema,
  newWorkflowSchema,
  occurrenceSchema,
  ownIdSchema,
  previewSchema,
  ROUTES,
  type Route,
  type RouteName,
  runSchema,
  runWithStepsSchema,
  scheduledJobSchema,
  scheduleSchema,
  scheduleSpecSchema,
  tagSchema,
  timeSchema,
  workflowSchema,
} from '@drover/protocol';
import { z } from 'zod';
import { JsonText } from '../base/json-text.js';
import { VERSION } from '../version.js';
import { JSON_TYPE } from './read-body.js';

type JsonSchema = Record<string, unknown>;
type Schemas = Record<string, JsonSchema>;
type Json = Record<string, unknown>;

/** Schemas that are named in the document. Requests and answers have different forms, hence two lists. */
const REQUEST_SCHEMAS = {
  Id: idSchema,
  Name: nameSchema,
  Tag: tagSchema,
  Time: timeSchema,
  Duration: durationSchema,
  Backoff: backoffSchema,
  NewJob: newJobSchema,
  NewSchedule: newScheduleSchema,
  NewWorkflow: newWorkflowSchema,
  NewRun: newRunSchema,
  ScheduleSpec: scheduleSpecSchema,
  ScheduledJob: scheduledJobSchema,
  NewCalendar: newCalendarSchema,
} as const;
const ANSWER_SCHEMAS = {
  JobState: jobStateSchema,
  JobError: jobErrorSchema,
  Attempt: attemptSchema,
  Job: jobSchema,
  ListedJob: listedJobSchema,
  JobWithAttempts: jobWithAttemptsSchema,
  Enqueued: enqueuedSchema,
  Queue: ROUTES.listQueues.answer.shape.items.element,
  Flow: ROUTES.stats.answer.shape.lastHour,
  Stats: ROUTES.stats.answer,
  Worker: ROUTES.listWorkers.answer.shape.items.element,
  Server: ROUTES.listServers.answer.shape.items.element,
  Pause: ROUTES.listPauses.answer.shape.items.element,
  Schedule: scheduleSchema,
  Workflow: workflowSchema,
  Run: runSchema,
  RunWithSteps: runWithStepsSchema,
  Occurrence: occurrenceSchema,
  Preview: previewSchema,
  Backfilled: backfilledSchema,
  Calendar: calendarSchema,
  DeepPing: ROUTES.deepPing.answer,
} as const;

const COMPONENTS = '#/components/schemas/';

/** The input of schemas with a transform, which cannot be generated. */
const BY_HAND = new Map<unknown, JsonSchema>([
  [
    idSchema,
    { type: 'string', format: 'uuid', description: 'A UUID; best a UUIDv7, whose time is at most a day ahead.' },
  ],
  [ownIdSchema, { $ref: `${COMPONENTS}Id` }],
  [timeSchema, { type: 'string', format: 'date-time', examples: ['2030-01-31T12:00:00Z'] }],
  [
    durationSchema,
    {
      anyOf: [
        { type: 'string', pattern: '^\\d{1,12}(\\.\\d{1,6})?(ms|s|m|h|d)$' },
        { type: 'number', minimum: 0, description: 'Milliseconds.' },
      ],
      examples: ['30s', '10m', '2h', '3d', 1500],
    },
  ],
]);

/** Routes that answer in their own format with a second status. */
const SECOND_STATUS: Partial<Record<RouteName, number>> = { deepPing: 503 };

const ERROR_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: {
        code: { type: 'string', enum: Object.keys(ERRORS) },
        message: { type: 'string' },
        details: { description: 'Depends on the code: the fields that are wrong, the limit, the state …' },
      },
    },
  },
};

let made: JsonText | undefined;

/** Generated and encoded once, on first use: everyone may ask for it. */
export function openApiDocument(): JsonText {
  made ??= new JsonText(Buffer.from(JSON.stringify(makeDocument())));
  return made;
}

function makeDocument(): Json {
  const names = Object.keys(ROUTES) as RouteName[];
  const requests = toJsonSchemas('input', REQUEST_SCHEMAS, partsOf(names, ['params', 'query', 'body']));
  const answers = toJsonSchemas('output', ANSWER_SCHEMAS, partsOf(names, ['answer']));
  const paths: Record<string, Json> = {};
  for (const name of names) {
    const { path, method } = ROUTES[name];
    const address = path.replace(/:([a-zA-Z]+)/g, '{$1}');
    paths[address] = { ...paths[address], [method.toLowerCase()]: operation(name, requests.parts, answers.parts) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Drover',
      version: VERSION,
      description: 'Distributed jobs on PostgreSQL. Times are ISO 8601 in UTC; lists answer `{ items, nextCursor }`.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { ...requests.named, ...answers.named, Error: ERROR_SCHEMA },
    },
  };
}

function operation(name: RouteName, requests: Schemas, answers: Schemas): Json {
  const route: Route = ROUTES[name];
  const body = requests[partName(name, 'body')];
  const answer = success(answers[partName(name, 'answer')] ?? {}, route.mediaType);
  const second = SECOND_STATUS[name];
  return {
    operationId: name,
    summary: route.summary,
    ...(route.roles === 'anyone' ? { security: [] } : { description: `Roles: ${allRoles(route.roles).join(', ')}.` }),
    parameters: [
      ...parameters('path', requests[partName(name, 'params')]),
      ...parameters('query', requests[partName(name, 'query')]),
    ],
    ...(body && {
      requestBody: {
        required: !route.body?.safeParse(undefined).success,
        content: { [JSON_TYPE]: { schema: body } },
      },
    }),
    ...(route.bodyType !== undefined && {
      requestBody: { required: true, content: { [route.bodyType]: { schema: { type: 'string' } } } },
    }),
    responses: {
      [String(route.status ?? 200)]: answer,
      ...errorResponses(errorCodes(route)),
      ...(second && { [String(second)]: answer }),
    },
  };
}

function allRoles(roles: readonly string[]): string[] {
  return [...new Set([...roles, 'admin'])];
}

function success(schema: JsonSchema, given: string | undefined): Json {
  const mediaType = given ?? (schema.type === 'string' ? 'text/plain' : 'application/json');
  return { description: 'The answer.', content: { [mediaType]: { schema } } };
}

/** The properties of an object schema, each as a parameter. A list is given with commas. */
function parameters(place: 'path' | 'query', schema: JsonSchema | undefined): Json[] {
  const properties = (schema?.properties ?? {}) as Schemas;
  const required = (schema?.required ?? []) as string[];
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: property,
    ...(property.type === 'array' && { style: 'form', explode: false }),
  }));
}

/** The errors that a request to the route can get, derived from the parts of the route. */
function errorCodes(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = ['internal', 'shutting_down'];
  if (route.roles !== 'anyone') codes.push('invalid_request', 'unauthenticated', 'forbidden', 'database_unavailable');
  if (route.path.includes('/workers/:id')) codes.push('worker_not_found');
  if (route.path.includes('/jobs/:id')) codes.push('job_not_found');
  if (route.path.includes('/jobs/:id') && route.method !== 'GET') codes.push('wrong_state');
  if (route.body || route.bodyType)
    codes.push('invalid_json', 'payload_too_large', 'request_too_large', 'unsupported_media_type', 'overloaded');
  if (route.path.includes('/schedules/:name') && route.method !== 'PUT' && route.method !== 'DELETE')
    codes.push('schedule_not_found');
  if (route.path.includes('/calendars/:name') && route.method === 'GET') codes.push('calendar_not_found');
  if (route.path.includes('/calendars/:name') && route.method === 'DELETE') codes.push('calendar_in_use');
  if (route.path.endsWith('/backfill')) codes.push('range_too_large');
  if (route.path.endsWith('/batch') || route.path.endsWith('/bulk')) codes.push('batch_too_large');
  if (route.method === 'GET' && /\/(jobs|schedules|occurrences)$/.test(route.path)) codes.push('invalid_cursor');
  return codes;
}

function errorResponses(codes: ErrorCode[]): Record<string, Json> {
  const responses: Record<string, Json> = {};
  for (const status of new Set(codes.map((code) => ERRORS[code].status).sort())) {
    const here = codes.filter((code) => ERRORS[code].status === status);
    responses[String(status)] = {
      description: here.map((code) => `\`${code}\`: ${ERRORS[code].meaning}.`).join(' '),
      ...((status === 429 || status === 503) && { headers: { 'Retry-After': { schema: { type: 'integer' } } } }),
      content: { 'application/json': { schema: { $ref: `${COMPONENTS}Error` } } },
    };
  }
  return responses;
}

type RoutePart = 'params' | 'query' | 'body' | 'answer';

function partName(name: RouteName, part: RoutePart): string {
  return `${name}.${part}`;
}

/** The schemas of the routes under names that are internal to this file. */
function partsOf(names: RouteName[], parts: readonly RoutePart[]): Record<string, z.ZodType> {
  const entries = names.flatMap((name) =>
    parts.map((part): [string, z.ZodType | undefined] => [partName(name, part), (ROUTES[name] as Route)[part]]),
  );
  return Object.fromEntries(entries.filter((entry): entry is [string, z.ZodType] => entry[1] !== undefined));
}

/** Named schemas refer to each other by name; the parts are inlined where they are used. */
function toJsonSchemas(io: 'input' | 'output', named: Record<string, z.ZodType>, parts: Record<string, z.ZodType>) {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id });
  const nameOf = new Map(Object.entries(named).map(([id, schema]) => [schema, id]));
  // one schema may be a part of several routes
  const partOf = new Map<z.ZodType, string>();
  for (const [id, schema] of Object.entries(parts)) {
    if (nameOf.has(schema) || partOf.has(schema)) continue;
    partOf.set(schema, id);
    registry.add(schema, { id });
  }
  const { schemas } = z.toJSONSchema(registry, {
    io,
    unrepresentable: 'any',
    uri: (id) => COMPONENTS + id,
    override({ zodSchema, jsonSchema }) {
      const byHand = BY_HAND.get(zodSchema);
      if (byHand) replace(jsonSchema, byHand);
      tidy(jsonSchema, io);
    },
  });
  const all = Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, withoutAddress(schema)]));
  return {
    named: Object.fromEntries(Object.keys(named).map((id) => [id, all[id] ?? {}])) as Schemas,
    parts: Object.fromEntries(
      Object.entries(parts).map(([id, schema]) => {
        const name = nameOf.get(schema);
        return [id, name ? { $ref: COMPONENTS + name } : (all[partOf.get(schema) ?? id] ?? {})];
      }),
    ) as Schemas,
  };
}

function replace(schema: JsonSchema, by: JsonSchema): void {
  for (const key of Object.keys(schema)) delete schema[key];
  Object.assign(schema, by);
}

/**
 * Removes keywords that carry no information, and those that would forbid a later server to add a field to an answer.
 */
function tidy(schema: JsonSchema, io: 'input' | 'output'): void {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (io === 'output' && schema.additionalProperties === false) delete schema.additionalProperties;
}

function withoutAddress({ $schema, $id, ...schema }: JsonSchema): JsonSchema {
  return schema;
}
