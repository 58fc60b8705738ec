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
import { idSchema, nameSchema, storableText } from './fields.js';
import { assignedOptionsSchema, jobErrorSchema, newJobSchema } from './job.js';
import { LIMITS } from './limits.js';

export const STREAM_VERSION = 1;
export const STREAM_PATH = '/api/v1/worker-stream';

const fenceSchema = z.int().min(1);
/** One grant of a job. The fence distinguishes it from every other grant. */
const grantSchema = z.object({ id: idSchema, fence: fenceSchema });
export type Grant = z.infer<typeof grantSchema>;

const outcomeBase = { id: idSchema, fence: fenceSchema };
/** Milliseconds that the handler ran. */
const runMsSchema = z.number().min(0);

export const outcomeSchema = z.discriminatedUnion('kind', [
  z.object({
    ...outcomeBase,
    kind: z.literal('succeeded'),
    runMs: runMsSchema,
    /** The result as a JSON string, so that no server has to parse it. */
    result: z.string().optional(),
    /** Jobs that are created together with this completion, or not at all. */
    children: z.array(newJobSchema).max(LIMITS.childrenPerJob).optional(),
  }),
  z.object({
    ...outcomeBase,
    kind: z.literal('failed'),
    runMs: runMsSchema,
    error: jobErrorSchema,
    /** Milliseconds until the next attempt. Absent: the error is permanent. */
    retryInMs: z.number().min(0).optional(),
  }),
  z.object({ ...outcomeBase, kind: z.literal('snoozed'), runMs: runMsSchema, inMs: z.number().min(0) }),
  z.object({ ...outcomeBase, kind: z.literal('cancelled'), runMs: runMsSchema }),
  /** Handed back: it never started, or the worker is shutting down and has stopped it. No attempt is used up. */
  z.object({ ...outcomeBase, kind: z.literal('released') }),
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
    /** Grows with each connection of the session, so that a delayed hello cannot replace a newer one. */
    connection: z.int().min(1),
    name: nameSchema,
    host: z.string().max(LIMITS.nameLength * 2),
    pid: z.int().min(0),
    sdk: z.string().max(LIMITS.nameLength),
    types: z.array(nameSchema).min(1).max(LIMITS.workerTypes),
    /** Absent: every queue. */
    queues: z.array(nameSchema).min(1).max(LIMITS.workerQueues).optional(),
    slots: z.int().min(1).max(LIMITS.workerSlots),
    window: z.int().min(0),
    /** Every grant without an acknowledged outcome: prefetched, running, finished. */
    holds: z.array(grantSchema),
    /** The cluster of the held grants, if there are any. Another cluster must not treat them as lost or stale. */
    clusterId: idSchema.optional(),
    /** Earlier sessions of the same data folder, from its journal. Their grants that `holds` names are transferred. */
    previousSessions: z.array(idSchema).max(LIMITS.previousSessions).optional(),
    /** Parts of that journal could not be read: jobs that `holds` does not name may have been started. */
    isJournalIncomplete: z.boolean().optional(),
    /** This worker keeps working when it, its queues, its types or the cluster are paused. */
    ignorePause: z.boolean().optional(),
  }),
  z.object({ kind: z.literal('offer'), window: z.int().min(0) }),
  z.object({
    kind: z.literal('outcomes'),
    items: z.array(outcomeSchema),
    /** Chosen by the worker. A server that supports it acknowledges the whole frame by it. */
    batch: z.int().min(1).optional(),
  }),
  z.object({
    kind: z.literal('progress'),
    /** `value` is JSON. */
    items: z.array(z.object({ ...outcomeBase, value: z.string().max(LIMITS.progressBytes) })),
  }),
  z.object({
    kind: z.literal('beat'),
    beat: z.int(),
    running: z.int().min(0),
    /**
     * Assignments that the main thread of the worker has received on this connection. It proves that the worker
     * handles jobs, not only that something in it sends beats.
     */
    received: z.int().min(0),
    /**
     * A problem on the worker, for the operator (a full disk, a handler that does not stop). Unstorable characters
     * are replaced, because one statement renews the leases of all workers of a server and must not be refused.
     */
    trouble: z.string().max(LIMITS.errorMessageLength).transform(storableText).optional(),
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
  payload: z.unknown(),
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
