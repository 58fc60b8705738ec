/**
 * The worker stream: JSON frames over one WebSocket, each a batch. Version 1.
 *
 * The database is authoritative for who holds a job, the worker for what it runs. The server of the session only
 * keeps state that can be rebuilt from the two. So every frame may be lost or repeated:
 * - `fence` grows with every grant of a job. A message with an old fence changes nothing.
 * - `offer.window` is the total number of assignments that the worker accepts on this connection; repeating or
 *   skipping an offer changes nothing.
 * - the worker sends an outcome again on each new connection until it is acknowledged.
 * - the lease is the session's. A worker may run jobs until `leaseMs` after it *sent* the last beat (or hello) that
 *   was answered; it stops `rerun` jobs before that, because afterwards others may start them.
 * - after `hello` the server answers with `welcome`, which lists what the worker must drop.
 *
 * ```
 * worker                         server
 *   hello ───────────────────────►
 *   ◄────────────────────── welcome
 *   offer ───────────────────────►
 *   ◄─────────────────────── assign
 *   outcomes ────────────────────►   (one commit for the batch)
 *   ◄────────────────────────── ack
 *   beat ⇄ beat,  ◄── cancel,  progress ──►,  bye ──►
 * ```
 */
import { z } from 'zod';
import { idSchema, listSchema, nameSchema, reportedTextSchema, textSchema } from './fields.js';
import { assignedOptionsSchema, newJobSchema } from './job.js';
import { typeDefinitionSchema } from './job-type.js';
import { LIMITS } from './limits.js';

export const STREAM_VERSION = 1;
export const STREAM_PATH = '/api/v1/worker-stream';

const fenceSchema = z.int().min(1).max(LIMITS.int);
/** One grant of a job. The fence distinguishes it from every other grant. */
const grantSchema = z.object({ id: idSchema, fence: fenceSchema });
export type Grant = z.infer<typeof grantSchema>;

/**
 * 256 random bits that prove who a session belongs to. The worker makes them with the session's id and sends them with
 * each hello; servers store a hash. Made by the worker and not by the server, so that a lost welcome loses no key.
 */
const resumeKeySchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/, 'expected 256 random bits as 43 characters of base64url');
const previousSessionSchema = z.object({ id: idSchema, resumeKey: resumeKeySchema });
export type PreviousSession = z.infer<typeof previousSessionSchema>;

const outcomeBase = { id: idSchema, fence: fenceSchema };
/** One that is too large fails its job, not the frame: the worker would send the frame again forever. */
const msSchema = z.number().min(0);
/** Milliseconds that the handler ran. */
const runMsSchema = msSchema;
/** An error of a handler (see `jobErrorSchema`). */
const reportedErrorSchema = z.object({
  name: reportedTextSchema(LIMITS.labelLength),
  message: reportedTextSchema(LIMITS.errorMessageLength),
  stack: reportedTextSchema(LIMITS.errorStackLength).optional(),
  code: reportedTextSchema(LIMITS.labelLength).optional(),
});

export const outcomeSchema = z.discriminatedUnion('kind', [
  z.object({
    ...outcomeBase,
    kind: z.literal('succeeded'),
    runMs: runMsSchema,
    /** The result as a JSON string. What is too long, too deep or not JSON fails the job, not the frame. */
    result: z.string().optional(),
    /** Jobs that are created together with this completion, or not at all. */
    children: listSchema(newJobSchema, { max: LIMITS.childrenPerJob }).optional(),
  }),
  z.object({
    ...outcomeBase,
    kind: z.literal('failed'),
    runMs: runMsSchema,
    error: reportedErrorSchema,
    /** Milliseconds until the next attempt. Absent: the error is permanent. */
    retryInMs: msSchema.optional(),
  }),
  z.object({ ...outcomeBase, kind: z.literal('snoozed'), runMs: runMsSchema, inMs: msSchema }),
  z.object({ ...outcomeBase, kind: z.literal('cancelled'), runMs: runMsSchema }),
  /**
   * Handed back: it never started, or the worker is shutting down and has stopped it (with `runMs`). No attempt is used
   * up.
   */
  z.object({ ...outcomeBase, kind: z.literal('released'), runMs: runMsSchema.optional() }),
  /** Its process died: reported by the successor, which found it in the journal. */
  z.object({ ...outcomeBase, kind: z.literal('lost') }),
]);
export type Outcome = z.infer<typeof outcomeSchema>;

export const workerMessageSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('hello'),
    version: z.int(),
    /** Created by the worker at its start, kept over reconnects. */
    sessionId: idSchema,
    resumeKey: resumeKeySchema,
    /** Grows with each connection of the session, so that a delayed hello cannot replace a newer one. */
    connection: z
      .int()
      .min(1)
      .max(LIMITS.int - 1),
    name: nameSchema,
    host: textSchema(LIMITS.labelLength),
    pid: z.int().min(0).max(LIMITS.int),
    sdk: textSchema(LIMITS.labelLength),
    types: listSchema(nameSchema, { min: 1, max: LIMITS.workerTypes }),
    /** What these types are, for jobs that are added by name. A type without an entry keeps the definition it has. */
    definitions: listSchema(typeDefinitionSchema, { max: LIMITS.workerTypes }).optional(),
    /** Absent: every queue. */
    queues: listSchema(nameSchema, { min: 1, max: LIMITS.workerQueues }).optional(),
    slots: z.int().min(1).max(LIMITS.workerSlots),
    window: z.int().min(0),
    /** Every grant without an acknowledged outcome: prefetched, running, finished. */
    holds: listSchema(grantSchema, { max: LIMITS.grants }),
    /** The cluster of the held grants, if there are any. Another cluster must not treat them as lost or stale. */
    clusterId: idSchema.optional(),
    /** Earlier sessions of the same data folder, from its journal. Their grants that `holds` names are transferred. */
    previousSessions: listSchema(previousSessionSchema, { max: LIMITS.previousSessions }).optional(),
    /** Parts of that journal could not be read: jobs that `holds` does not name may have been started. */
    isJournalIncomplete: z.boolean().optional(),
    /** This worker keeps working when it, its queues, its types or the cluster are paused. */
    ignorePause: z.boolean().optional(),
  }),
  z.object({ kind: z.literal('offer'), window: z.int().min(0) }),
  z.object({
    kind: z.literal('outcomes'),
    items: listSchema(outcomeSchema, { max: LIMITS.frameOutcomes }),
    /** Chosen by the worker. A server that supports it acknowledges the whole frame by it. */
    batch: z.int().min(1).optional(),
  }),
  z.object({
    kind: z.literal('progress'),
    /** `value` is JSON. One that is not is ignored. */
    items: listSchema(z.object({ ...outcomeBase, value: z.string().max(LIMITS.progressBytes) }), {
      max: LIMITS.frameItems,
    }),
  }),
  z.object({
    kind: z.literal('beat'),
    beat: z.int(),
    running: z.int().min(0).max(LIMITS.int),
    /**
     * Assignments that the main thread of the worker has received on this connection. It proves that the worker
     * handles jobs, not only that something in it sends beats.
     */
    received: z.int().min(0),
    /** A problem on the worker, for the operator (a full disk, a handler that does not stop). */
    trouble: reportedTextSchema(LIMITS.errorMessageLength).optional(),
  }),
  /** The worker accepts no more jobs; it leaves when its jobs are done. */
  z.object({ kind: z.literal('drain') }),
  /** The worker has no jobs left and leaves permanently. */
  z.object({ kind: z.literal('bye') }),
]);
export type WorkerMessage = z.infer<typeof workerMessageSchema>;
export type Hello = Extract<WorkerMessage, { kind: 'hello' }>;

export const assignmentSchema = z.object({
  id: idSchema,
  fence: fenceSchema,
  type: nameSchema,
  queue: nameSchema,
  attempt: z.int().min(1),
  maxAttempts: z.int().min(1),
  /** Attempts among `attempt` that were lost with their worker; they do not count against `maxAttempts`. Absent: none. */
  lostAttempts: z.int().min(1).optional(),
  payload: z.unknown(),
  /** When its worker is lost it is held, whatever its options say: see strictOptions in the SDK. */
  hold: z.literal(true).optional(),
  /** As they were given; absent: none. */
  options: assignedOptionsSchema.optional(),
});
export type Assignment = z.infer<typeof assignmentSchema>;

export const serverMessageSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('welcome'),
    version: z.int(),
    serverId: z.string(),
    clusterId: idSchema,
    beatMs: z.number(),
    leaseMs: z.number(),
    /** Every server that a worker may connect to, including this one. */
    servers: z.array(z.string()),
    /** Grants of `hello.holds` that are no longer the worker's: it must stop and forget them. */
    dropped: z.array(grantSchema),
  }),
  z.object({ kind: z.literal('assign'), jobs: z.array(assignmentSchema) }),
  /** Outcomes that need not be sent again; `stale` ones changed nothing. With `batch`: all of that frame. */
  z.object({
    kind: z.literal('ack'),
    items: z.array(grantSchema),
    stale: z.array(grantSchema),
    batch: z.int().optional(),
  }),
  z.object({
    kind: z.literal('cancel'),
    items: z.array(z.object({ ...outcomeBase, reason: z.enum(['cancelled', 'expired', 'lost']) })),
  }),
  /**
   * The lease was renewed in the database after this beat had arrived: it lasts `leaseMs` from when the beat was
   * sent.
   */
  z.object({ kind: z.literal('beat'), beat: z.int(), servers: z.array(z.string()) }),
  /** The worker hands back what it has not started: it, its queues, its types or the cluster were paused. */
  z.object({ kind: z.literal('handBack') }),
  /** The server is shutting down; the worker connects to another one. */
  z.object({ kind: z.literal('moveOn') }),
  z.object({ kind: z.literal('refused'), code: z.string(), message: z.string() }),
]);
export type ServerMessage = z.infer<typeof serverMessageSchema>;
