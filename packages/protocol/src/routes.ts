/**
 * The HTTP API as data: the server mounts it, OpenAPI is generated from it, and the client's calls are built and
 * typed from it. A route is added here, with its handler in the server's `api/`.
 */
import { z } from 'zod';
import { auditEntrySchema, listAuditQuery } from './audit.js';
import { BULK_MEDIA_TYPE, checkBatchSize } from './bulk.js';
import { durationSchema } from './duration.js';
import {
  idPrefixSchema,
  idSchema,
  listSchema,
  nameSchema,
  noteSchema,
  tagSchema,
  textSchema,
  timeSchema,
} from './fields.js';
import {
  cancelledJobSchema,
  enqueuedSchema,
  jobSchema,
  jobStateSchema,
  jobWithAttemptsSchema,
  LARGE_JOB_PARTS,
  listedJobSchema,
  newJobSchema,
  warningsShape,
} from './job.js';
import { jobTypeSchema, jobTypeWithSchemaSchema } from './job-type.js';
import { LIMITS } from './limits.js';
import {
  backfilledSchema,
  backfillSchema,
  calendarSchema,
  newCalendarSchema,
  newScheduleSchema,
  OCCURRENCE_STATES,
  occurrenceSchema,
  previewRequestSchema,
  previewSchema,
  SCHEDULE_STATES,
  scheduleSchema,
  triggerSchema,
} from './schedule.js';
import { newTokenSchema, type Role, rotateTokenSchema, tokenSchema, tokenWithSecretSchema } from './tokens.js';
import { newWorkflowSchema } from './workflow/definition.js';
import {
  newRunSchema,
  RUN_STATES,
  repeatRunSchema,
  runSchema,
  runWithStepsSchema,
  workflowSchema,
  workflowWithDefinitionSchema,
} from './workflow/run.js';

export type Route = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly summary: string;
  /** `admin` may do everything. */
  readonly roles: readonly Role[] | 'anyone';
  /**
   * Whether tokens that are limited to queues or types may call it: its handler checks what it touches, or it touches neither
   * queues nor types. Absent: they may not.
   */
  readonly scope?: 'checked' | 'free';
  readonly params?: z.ZodType;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** The media type of a body that the handler parses itself. Other bodies are JSON and match `body`. */
  readonly bodyType?: string;
  /** Bytes of the body. Default: `LIMITS.bodyBytes`. */
  readonly bodyBytes?: number;
  readonly answer: z.ZodType;
  /** The status of success. Default: 200. */
  readonly status?: number;
  /** The media type of an answer that is not JSON. Default: plain UTF-8 text. */
  readonly mediaType?: string;
};

const idParams = z.strictObject({ id: idSchema });

/** A query value that may be given once, several times or as a comma-separated list. */
function listOf<Item extends z.ZodType>(item: Item) {
  return z.preprocess(
    (value) =>
      value === undefined
        ? undefined
        : [value].flat().flatMap((part) => (typeof part === 'string' ? part.split(',') : [part])),
    listSchema(item, { min: 1, max: 100 }).optional(),
  );
}

export const listJobsQuery = z.strictObject({
  state: listOf(jobStateSchema),
  queue: nameSchema.optional(),
  type: nameSchema.optional(),
  tag: tagSchema.optional(),
  idPrefix: idPrefixSchema.optional(),
  parent: idSchema.optional(),
  schedule: nameSchema.optional(),
  run: idSchema.optional(),
  createdAfter: timeSchema.optional(),
  createdBefore: timeSchema.optional(),
  finishedAfter: timeSchema.optional(),
  finishedBefore: timeSchema.optional(),
  include: listOf(z.enum(LARGE_JOB_PARTS)),
  limit: z.coerce.number().int().min(1).max(LIMITS.pageSize).default(50),
  cursor: textSchema(LIMITS.cursorLength).optional(),
});
export type ListJobsQuery = z.output<typeof listJobsQuery>;
export type ListJobsInput = z.input<typeof listJobsQuery>;

const pageQuery = {
  limit: z.coerce.number().int().min(1).max(LIMITS.pageSize).default(50),
  cursor: textSchema(LIMITS.cursorLength).optional(),
};

export const listSchedulesQuery = z.strictObject({
  group: nameSchema.optional(),
  state: z.enum(SCHEDULE_STATES).optional(),
  ...pageQuery,
});
export type ListSchedulesInput = z.input<typeof listSchedulesQuery>;

/** Filtered by nominal time, both ends included. */
export const listOccurrencesQuery = z.strictObject({
  state: z.enum(OCCURRENCE_STATES).optional(),
  from: timeSchema.optional(),
  to: timeSchema.optional(),
  ...pageQuery,
});
export type ListOccurrencesInput = z.input<typeof listOccurrencesQuery>;

export const listRunsQuery = z.strictObject({
  workflow: nameSchema.optional(),
  state: listOf(z.enum(RUN_STATES)),
  parent: idSchema.optional(),
  ...pageQuery,
});
export type ListRunsQuery = z.output<typeof listRunsQuery>;

const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), nextCursor: z.string().nullable() });

const countsByState = z.partialRecord(jobStateSchema, z.int());

/** Totals of a time range, from the per-minute rollups. */
export const flowSchema = z.object({
  succeeded: z.int(),
  failed: z.int(),
  cancelled: z.int(),
  retried: z.int(),
  /** Mean milliseconds from due to start, and from start to end. */
  waitMs: z.number().nullable(),
  runMs: z.number().nullable(),
});
export type Flow = z.infer<typeof flowSchema>;

export const queueSchema = z.object({
  name: z.string(),
  counts: countsByState,
  types: z.array(z.string()),
  /** When the oldest job that could start now became due. */
  oldestReadyAt: z.string().nullable(),
  paused: z.boolean(),
  lastHour: flowSchema,
});
export type Queue = z.infer<typeof queueSchema>;

export const statsSchema = z.object({
  /** Unfinished jobs as counted at `countedAt`. Finished jobs within the retention of the rollups. */
  counts: countsByState,
  countedAt: z.string(),
  capacity: z.object({ total: z.int(), free: z.int(), workers: z.int(), servers: z.int() }),
  perSecond: z.object({ finished: z.number() }),
  lastMinute: flowSchema,
  lastHour: flowSchema,
  lastDay: flowSchema,
});
export type Stats = z.infer<typeof statsSchema>;

export const workerSchema = z.object({
  id: z.string(),
  name: z.string(),
  state: z.enum(['initializing', 'waiting', 'working', 'paused', 'unresponsive', 'draining', 'resigned', 'dead']),
  host: z.string(),
  pid: z.int(),
  sdk: z.string(),
  types: z.array(z.string()),
  queues: z.array(z.string()).nullable(),
  slots: z.int(),
  running: z.int(),
  serverId: z.string().nullable(),
  startedAt: z.string(),
  lastBeatAt: z.string(),
  missedBeats: z.int(),
  lastError: z.string().nullable(),
  paused: z.boolean(),
  ignoresPause: z.boolean(),
});
export type Worker = z.infer<typeof workerSchema>;

export const serverSchema = z.object({
  id: z.string(),
  address: z.string(),
  host: z.string(),
  pid: z.int(),
  version: z.string(),
  state: z.enum(['working', 'draining', 'unresponsive']),
  workers: z.int(),
  startedAt: z.string(),
  lastBeatAt: z.string(),
});
export type Server = z.infer<typeof serverSchema>;

const deepPingSchema = z.object({
  status: z.enum(['okay', 'partial_success', 'error']),
  checks: z.record(
    z.string(),
    z.object({ status: z.enum(['okay', 'error']), message: z.string().optional(), ms: z.number().optional() }),
  ),
});
export type DeepPing = z.infer<typeof deepPingSchema>;

export const pauseSchema = z.object({
  scope: z.enum(['cluster', 'queue', 'type', 'worker']),
  /** Empty for the cluster; the id for a worker. */
  name: z.string(),
  note: z.string().nullable(),
  pausedBy: z.string(),
  pausedAt: z.string(),
});
export type Pause = z.infer<typeof pauseSchema>;

const pauseBody = z.strictObject({ note: noteSchema.optional() }).optional();
const namedParams = z.strictObject({ name: nameSchema });

function pauseRoute<Kind extends 'queues' | 'types'>(kind: Kind, summary: string) {
  return {
    method: 'POST',
    path: `/api/v1/${kind}/:name/pause`,
    summary,
    roles: ['operator', 'admin'],
    scope: 'checked',
    params: namedParams,
    body: pauseBody,
    answer: pauseSchema,
  } as const;
}

function resumeRoute<Kind extends 'queues' | 'types'>(kind: Kind, summary: string) {
  return {
    method: 'POST',
    path: `/api/v1/${kind}/:name/resume`,
    summary,
    roles: ['operator', 'admin'],
    scope: 'checked',
    params: namedParams,
    answer: z.object({ resumed: z.boolean() }),
  } as const;
}

/** Those who add jobs. */
const adders = ['client', 'enqueue', 'operator', 'admin'] as const;
const readers = ['viewer', 'operator', 'admin', 'client'] as const;
const changers = ['operator', 'admin', 'client'] as const;

export const ROUTES = {
  enqueueJob: {
    method: 'POST',
    path: '/api/v1/jobs',
    summary: 'Add one job. A repetition with the same id adds no second job.',
    roles: adders,
    scope: 'checked',
    body: newJobSchema,
    bodyBytes: LIMITS.jobRequestBytes,
    answer: enqueuedSchema.extend(warningsShape),
    status: 201,
  },
  enqueueJobs: {
    method: 'POST',
    path: '/api/v1/jobs/batch',
    summary: `Add up to ${LIMITS.batchJobs} jobs: all of them or none.`,
    roles: adders,
    scope: 'checked',
    body: z.strictObject({
      jobs: listSchema(newJobSchema, { max: LIMITS.batchJobs, checkLength: checkBatchSize }),
    }),
    bodyBytes: LIMITS.requestBytes,
    answer: z.object({ items: z.array(enqueuedSchema), ...warningsShape }),
    status: 201,
  },
  enqueueBulk: {
    method: 'POST',
    path: '/api/v1/jobs/bulk',
    summary: `Add up to ${LIMITS.batchJobs} jobs in the bulk format, whose payloads servers do not parse: all of them or none.`,
    roles: adders,
    scope: 'checked',
    bodyType: BULK_MEDIA_TYPE,
    bodyBytes: LIMITS.requestBytes,
    answer: z.object({
      existed: z.array(z.int()).describe('the indexes of the jobs that existed already, from 0'),
      ...warningsShape,
    }),
    status: 201,
  },
  listJobs: {
    method: 'GET',
    path: '/api/v1/jobs',
    summary: 'List jobs, newest id first.',
    roles: readers,
    scope: 'checked',
    query: listJobsQuery,
    answer: pageOf(listedJobSchema),
  },
  getJob: {
    method: 'GET',
    path: '/api/v1/jobs/:id',
    summary: 'One job with its attempts.',
    roles: [...readers, 'enqueue'],
    scope: 'checked',
    params: idParams,
    answer: jobWithAttemptsSchema,
  },
  cancelJob: {
    method: 'POST',
    path: '/api/v1/jobs/:id/cancel',
    summary:
      'Cancel a job. A queued one ends at once; the handler of a running one is told to stop; a cancelled one stays so.',
    roles: changers,
    scope: 'checked',
    params: idParams,
    answer: cancelledJobSchema,
  },
  retryJob: {
    method: 'POST',
    path: '/api/v1/jobs/:id/retry',
    summary: 'Give a failed or cancelled job another attempt, or start a waiting one now.',
    roles: changers,
    scope: 'checked',
    params: idParams,
    answer: jobSchema,
  },
  failJob: {
    method: 'POST',
    path: '/api/v1/jobs/:id/fail',
    summary: 'End an `unknown` job as failed, after a check that it did not do its work.',
    roles: ['operator', 'admin'],
    scope: 'checked',
    params: idParams,
    body: z.strictObject({ reason: textSchema(LIMITS.errorMessageLength).min(1).optional() }).optional(),
    answer: jobSchema,
  },
  jobResult: {
    method: 'GET',
    path: '/api/v1/jobs/:id/result',
    summary: 'The outcome of a job. Waits for it up to `wait`.',
    roles: [...readers, 'enqueue'],
    scope: 'checked',
    params: idParams,
    query: z.strictObject({ wait: durationSchema.optional() }),
    answer: z.object({
      id: z.string(),
      state: jobStateSchema,
      finished: z.boolean(),
      result: z.unknown().nullable(),
      error: jobSchema.shape.error,
    }),
  },
  listQueues: {
    method: 'GET',
    path: '/api/v1/queues',
    summary: 'Every queue with its counts.',
    roles: readers,
    scope: 'checked',
    answer: z.object({ items: z.array(queueSchema) }),
  },
  listTypes: {
    method: 'GET',
    path: '/api/v1/types',
    summary: 'Every known job type, with the definition that its workers gave.',
    roles: readers,
    answer: z.object({ items: z.array(jobTypeSchema) }),
  },
  getType: {
    method: 'GET',
    path: '/api/v1/types/:name',
    summary: 'One job type, with the JSON Schema of its payload.',
    roles: readers,
    params: namedParams,
    answer: jobTypeWithSchemaSchema,
  },
  forgetType: {
    method: 'DELETE',
    path: '/api/v1/types/:name',
    summary: 'Forget the definition of a job type that no live worker offers. Its jobs stay.',
    roles: ['operator', 'admin'],
    params: namedParams,
    answer: z.object({ forgotten: z.boolean() }),
  },
  stats: {
    method: 'GET',
    path: '/api/v1/stats',
    summary: 'Counts, rates and capacity.',
    roles: readers,
    answer: statsSchema,
  },
  listWorkers: {
    method: 'GET',
    path: '/api/v1/workers',
    summary: 'Every known worker with its state.',
    roles: ['viewer', 'operator', 'admin'],
    query: z.strictObject({ idPrefix: idPrefixSchema.optional() }),
    answer: z.object({ items: z.array(workerSchema) }),
  },
  listServers: {
    method: 'GET',
    path: '/api/v1/servers',
    summary: 'Every known server.',
    roles: ['viewer', 'operator', 'admin'],
    answer: z.object({ items: z.array(serverSchema) }),
  },
  pauseWorker: {
    method: 'POST',
    path: '/api/v1/workers/:id/pause',
    summary: 'Give this worker no more jobs. Its running jobs continue; jobs it has not started are handed back.',
    roles: ['operator', 'admin'],
    params: idParams,
    body: pauseBody,
    answer: pauseSchema,
  },
  resumeWorker: {
    method: 'POST',
    path: '/api/v1/workers/:id/resume',
    summary: 'Give this worker jobs again.',
    roles: ['operator', 'admin'],
    params: idParams,
    answer: z.object({ id: z.string(), paused: z.boolean() }),
  },
  pauseQueue: pauseRoute('queues', 'Start no more jobs of this queue.'),
  resumeQueue: resumeRoute('queues', 'Start jobs of this queue again.'),
  pauseType: pauseRoute('types', 'Start no more jobs of this type.'),
  resumeType: resumeRoute('types', 'Start jobs of this type again.'),
  pauseCluster: {
    method: 'POST',
    path: '/api/v1/cluster/pause',
    summary: 'Start no more jobs at all.',
    roles: ['operator', 'admin'],
    body: pauseBody,
    answer: pauseSchema,
  },
  resumeCluster: {
    method: 'POST',
    path: '/api/v1/cluster/resume',
    summary: 'Start jobs again.',
    roles: ['operator', 'admin'],
    answer: z.object({ resumed: z.boolean() }),
  },
  listPauses: {
    method: 'GET',
    path: '/api/v1/pauses',
    summary: 'What is paused, by whom and why.',
    roles: ['viewer', 'operator', 'admin'],
    scope: 'checked',
    answer: z.object({ items: z.array(pauseSchema) }),
  },
  listWorkflows: {
    method: 'GET',
    path: '/api/v1/workflows',
    summary: 'List workflows by name, each with its latest version.',
    roles: readers,
    query: z.strictObject(pageQuery),
    answer: pageOf(workflowSchema),
  },
  getWorkflow: {
    method: 'GET',
    path: '/api/v1/workflows/:name',
    summary: 'One workflow with its definition.',
    roles: readers,
    params: namedParams,
    query: z.strictObject({ version: z.coerce.number().int().min(1).max(LIMITS.int).optional() }),
    answer: workflowWithDefinitionSchema,
  },
  putWorkflow: {
    method: 'PUT',
    path: '/api/v1/workflows/:name',
    summary: 'Register a workflow. The same definition again is the same version.',
    roles: changers,
    params: namedParams,
    body: newWorkflowSchema,
    bodyBytes: LIMITS.workflowBytes,
    answer: workflowSchema,
  },
  startRun: {
    method: 'POST',
    path: '/api/v1/runs',
    summary: 'Start a run of a workflow. A repetition with the same id starts no second run.',
    roles: ['client', 'operator', 'admin'],
    body: newRunSchema,
    bodyBytes: LIMITS.jobRequestBytes,
    answer: runSchema,
    status: 201,
  },
  listRuns: {
    method: 'GET',
    path: '/api/v1/runs',
    summary: 'List runs, newest id first.',
    roles: readers,
    query: listRunsQuery,
    answer: pageOf(runSchema),
  },
  getRun: {
    method: 'GET',
    path: '/api/v1/runs/:id',
    summary: 'One run with its steps.',
    roles: readers,
    params: idParams,
    answer: runWithStepsSchema,
  },
  cancelRun: {
    method: 'POST',
    path: '/api/v1/runs/:id/cancel',
    summary: 'Cancel a run: its steps and child runs stop, and what has succeeded is undone.',
    roles: changers,
    params: idParams,
    answer: runSchema,
  },
  retryRun: {
    method: 'POST',
    path: '/api/v1/runs/:id/retry',
    summary: 'Run again what failed, was cancelled or never began in a finished run, and everything behind it.',
    roles: changers,
    params: idParams,
    answer: runSchema,
  },
  repeatRun: {
    method: 'POST',
    path: '/api/v1/runs/:id/repeat',
    summary: 'Start a new run that repeats this one from a step on, with the outputs of the steps before.',
    roles: changers,
    params: idParams,
    body: repeatRunSchema,
    answer: runSchema,
    status: 201,
  },
  listSchedules: {
    method: 'GET',
    path: '/api/v1/schedules',
    summary: 'List schedules by name.',
    roles: readers,
    scope: 'checked',
    query: listSchedulesQuery,
    answer: pageOf(scheduleSchema),
  },
  getSchedule: {
    method: 'GET',
    path: '/api/v1/schedules/:name',
    summary: 'One schedule.',
    roles: readers,
    scope: 'checked',
    params: namedParams,
    answer: scheduleSchema,
  },
  putSchedule: {
    method: 'PUT',
    path: '/api/v1/schedules/:name',
    summary: 'Create or change a schedule. An identical request changes nothing.',
    roles: changers,
    scope: 'checked',
    params: namedParams,
    body: newScheduleSchema,
    answer: scheduleSchema.extend(warningsShape),
  },
  deleteSchedule: {
    method: 'DELETE',
    path: '/api/v1/schedules/:name',
    summary: 'Delete a schedule. Its jobs stay.',
    roles: changers,
    scope: 'checked',
    params: namedParams,
    answer: z.object({ deleted: z.boolean() }),
  },
  triggerSchedule: {
    method: 'POST',
    path: '/api/v1/schedules/:name/trigger',
    summary: 'Fire one occurrence now, even if the schedule is paused.',
    roles: changers,
    scope: 'checked',
    params: namedParams,
    body: triggerSchema,
    answer: occurrenceSchema,
  },
  pauseSchedule: {
    method: 'POST',
    path: '/api/v1/schedules/:name/pause',
    summary: 'Stop firing. Occurrences during the pause are skipped.',
    roles: changers,
    scope: 'checked',
    params: namedParams,
    body: pauseBody,
    answer: scheduleSchema,
  },
  resumeSchedule: {
    method: 'POST',
    path: '/api/v1/schedules/:name/resume',
    summary: 'Fire occurrences again, counted from now.',
    roles: changers,
    scope: 'checked',
    params: namedParams,
    answer: scheduleSchema,
  },
  backfillSchedule: {
    method: 'POST',
    path: '/api/v1/schedules/:name/backfill',
    summary: `Fire the past occurrences of a time range that have no job, up to ${LIMITS.backfillOccurrences}.`,
    roles: changers,
    scope: 'checked',
    params: namedParams,
    body: backfillSchema,
    answer: backfilledSchema,
  },
  listOccurrences: {
    method: 'GET',
    path: '/api/v1/schedules/:name/occurrences',
    summary: 'The result of each occurrence, latest first.',
    roles: readers,
    scope: 'checked',
    params: namedParams,
    query: listOccurrencesQuery,
    answer: pageOf(occurrenceSchema),
  },
  previewSchedule: {
    method: 'POST',
    path: '/api/v1/schedules/preview',
    summary: 'The next times of a schedule that need not exist.',
    roles: readers,
    scope: 'free',
    body: previewRequestSchema,
    answer: previewSchema,
  },
  listCalendars: {
    method: 'GET',
    path: '/api/v1/calendars',
    summary: 'Every calendar of excluded days.',
    roles: readers,
    scope: 'free',
    answer: z.object({ items: z.array(calendarSchema) }),
  },
  getCalendar: {
    method: 'GET',
    path: '/api/v1/calendars/:name',
    summary: 'One calendar.',
    roles: readers,
    scope: 'free',
    params: namedParams,
    answer: calendarSchema,
  },
  putCalendar: {
    method: 'PUT',
    path: '/api/v1/calendars/:name',
    summary: 'Create or change a calendar. Its schedules get their next times at once.',
    roles: changers,
    params: namedParams,
    body: newCalendarSchema,
    answer: calendarSchema,
  },
  deleteCalendar: {
    method: 'DELETE',
    path: '/api/v1/calendars/:name',
    summary: 'Delete a calendar that no schedule uses.',
    roles: changers,
    params: namedParams,
    answer: z.object({ deleted: z.boolean() }),
  },
  createToken: {
    method: 'POST',
    path: '/api/v1/tokens',
    summary: 'Create a token. Only this answer has its secret.',
    roles: ['admin'],
    body: newTokenSchema,
    answer: tokenWithSecretSchema,
    status: 201,
  },
  listTokens: {
    method: 'GET',
    path: '/api/v1/tokens',
    summary: 'Every token, without secrets. Those of the configuration are those of this server.',
    roles: ['auditor', 'admin'],
    answer: z.object({ items: z.array(tokenSchema) }),
  },
  revokeToken: {
    method: 'DELETE',
    path: '/api/v1/tokens/:id',
    summary: 'Revoke a token. Every server refuses it and closes its streams within five seconds.',
    roles: ['admin'],
    params: idParams,
    answer: z.object({ revoked: z.boolean() }),
  },
  rotateToken: {
    method: 'POST',
    path: '/api/v1/tokens/:id/rotate',
    summary: 'Give a token a new secret. The present one stays valid for the overlap.',
    roles: ['admin'],
    params: idParams,
    body: rotateTokenSchema,
    answer: tokenWithSecretSchema,
  },
  listAudit: {
    method: 'GET',
    path: '/api/v1/audit',
    summary: 'The audit trail: who has changed what, newest first.',
    roles: ['auditor', 'admin'],
    query: listAuditQuery,
    answer: pageOf(auditEntrySchema),
  },
  openApi: {
    method: 'GET',
    path: '/api/v1/openapi.json',
    summary: 'This API as OpenAPI 3.1.',
    roles: 'anyone',
    answer: z.record(z.string(), z.unknown()),
  },
  home: {
    method: 'GET',
    path: '/',
    summary: 'A page for people who open the address in a browser.',
    roles: 'anyone',
    answer: z.string(),
    mediaType: 'text/html; charset=utf-8',
  },
  ping: { method: 'GET', path: '/api/ping', summary: 'Answers `pong`.', roles: 'anyone', answer: z.string() },
  deepPing: {
    method: 'GET',
    path: '/api/deep_ping',
    summary: 'The state of everything that this server depends on.',
    roles: 'anyone',
    answer: deepPingSchema,
  },
  metrics: {
    method: 'GET',
    path: '/metrics',
    summary: 'The metrics of this server, in the Prometheus text format.',
    roles: readers,
    answer: z.string(),
    mediaType: 'text/plain; version=0.0.4; charset=utf-8',
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof ROUTES;
export type RouteAnswer<Name extends RouteName> = z.output<(typeof ROUTES)[Name]['answer']>;

type Part = 'params' | 'query' | 'body';
type InputOf<Schema> = Schema extends z.ZodType ? z.input<Schema> : never;
type Parts<Definition> = { [Key in keyof Definition & Part]: InputOf<Definition[Key]> };
type Optional<All> = { [Key in keyof All as undefined extends All[Key] ? Key : never]?: All[Key] };
type Required<All> = { [Key in keyof All as undefined extends All[Key] ? never : Key]: All[Key] };
/** The input of a route: its `params`, `query` and `body`, where it has them. */
export type RouteInput<Name extends RouteName> = Required<Parts<(typeof ROUTES)[Name]>> &
  Optional<Parts<(typeof ROUTES)[Name]>>;

/** The same table as a map from a route to the type of its answer, so that TypeScript needs no cast. */
const ANSWERS: { readonly [Name in RouteName]: { readonly answer: z.ZodType<RouteAnswer<Name>> } } = ROUTES;

/** Checks an answer with the schema of its route. */
export function checkAnswer<Name extends RouteName>(
  name: Name,
  answer: unknown,
): z.ZodSafeParseResult<RouteAnswer<Name>> {
  return ANSWERS[name].answer.safeParse(answer);
}
