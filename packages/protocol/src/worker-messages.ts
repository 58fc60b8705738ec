/**
 * The worker stream: JSON frames over one WebSocket, each a batch. Version 1.
 *
 * Who is authoritative: the database for who holds a job; the worker for what it runs; the server that
 * serves the session for nothing that the two could not rebuild. So every frame may be lost or repeated:
 * - `fence` grows with every grant of a job. Whatever carries an old fence changes nothing.
 * - `offer.window` is the total number of assignments the worker takes on this connection, counted from
 *   its beginning; repeating or skipping an offer changes nothing.
 * - the worker sends an outcome again on each new connection until it is acknowledged.
 * - the lease is the session's. A worker may run jobs until `leaseMs` after it *sent* the last beat (or hello)
 *   that was answered; it stops `rerun` jobs before that, because afterwards others may start them.
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
import { backoffSchema } from './backoff.js';
import { durationSchema } from './duration.js';
import { idSchema, nameSchema, storableText } from './fields.js';
import { jobErrorSchema, newJobSchema } from './job.js';
import { LIMITS } from './limits.js';

export const STREAM_VERSION = 1;
export const STREAM_PATH = '/api/v1/worker-stream';

const fenceSchema = z.int().min(1);
/** A job as one grant of it: the fence tells this grant from every other. */
const grantSchema = z.object({ id: idSchema, fence: fenceSchema });
export type Grant = z.infer<typeof grantSchema>;

const outcomeBase = { id: idSchema, fence: fenceSchema };
/** Milliseconds the handler ran. */
const runMsSchema = z.number().min(0);

export const outcomeSchema = z.discriminatedUnion('kind', [
  z.object({
    ...outcomeBase,
    kind: z.literal('succeeded'),
    runMs: runMsSchema,
    /** The result as JSON text, so that no server has to read it. */
    result: z.string().optional(),
    /** Jobs that become real together with this completion, or not at all. */
    children: z.array(newJobSchema).max(LIMITS.childrenPerJob).optional(),
  }),
  z.object({
    ...outcomeBase,
    kind: z.literal('failed'),
    runMs: runMsSchema,
    error: jobErrorSchema,
    /** Milliseconds until the next attempt; absent: the error is permanent. */
    retryInMs: z.number().min(0).optional(),
  }),
  z.object({ ...outcomeBase, kind: z.literal('snoozed'), runMs: runMsSchema, inMs: z.number().min(0) }),
  z.object({ ...outcomeBase, kind: z.literal('cancelled'), runMs: runMsSchema }),
  /** Handed back: it never started, or the worker is leaving and has stopped it. No attempt is used up. */
  z.object({ ...outcomeBase, kind: z.literal('released') }),
  /** The process that ran it died: told by its successor, which found it in the journal. */
  z.object({ ...outcomeBase, kind: z.literal('lost') }),
]);
export type Outcome = z.infer<typeof outcomeSchema>;

export const workerMessageSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('hello'),
    version: z.int(),
    /** Made by the worker at its start, kept over reconnects. */
    sessionId: idSchema,
    /** Grows with each connection of the session: a hello that was late in the network takes nothing back. */
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
    /** Everything the worker has and has not had acknowledged: prefetched, running, finished. */
    holds: z.array(grantSchema),
    /** Named if it holds anything: the cluster that this is of. Another one must not take it for lost or stale. */
    clusterId: idSchema.optional(),
    /** Earlier sessions of the same data folder, found in its journal. What they hold and `holds` names goes over. */
    previousSessions: z.array(idSchema).max(LIMITS.previousSessions).optional(),
    /** Parts of that journal could not be read: what `holds` does not name may have been started all the same. */
    isJournalIncomplete: z.boolean().optional(),
    /** This worker goes on when it, its queues, its types or the cluster are paused. */
    ignorePause: z.boolean().optional(),
  }),
  z.object({ kind: z.literal('offer'), window: z.int().min(0) }),
  z.object({
    kind: z.literal('outcomes'),
    items: z.array(outcomeSchema),
    /** A number of the worker's own: a server that knows of it acknowledges the whole frame by it. */
    batch: z.int().min(1).optional(),
  }),
  z.object({
    kind: z.literal('progress'),
    /** `value` is JSON text. */
    items: z.array(z.object({ ...outcomeBase, value: z.string().max(LIMITS.progressBytes) })),
  }),
  z.object({
    kind: z.literal('beat'),
    beat: z.int(),
    running: z.int().min(0),
    /**
     * Assignments that the part of the worker which runs jobs has taken in on this connection: it proves that
     * the worker hears and acts, not only that something in it sends beats.
     */
    received: z.int().min(0),
    /**
     * What is wrong on the worker, for the operator (a full disk, a handler that will not stop). One statement renews the
     * leases of all workers of a server, so the text must not be one that the database refuses.
     */
    trouble: z.string().max(LIMITS.errorMessageLength).transform(storableText).optional(),
  }),
  /** The worker takes nothing more; it goes when its jobs are done. */
  z.object({ kind: z.literal('drain') }),
  /** The worker has nothing left and leaves for good. */
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
  /** Absent: no limit. */
  timeoutMs: durationSchema.optional(),
  /** Absent: the default. */
  backoff: backoffSchema.optional(),
  /** Absent: rerun. */
  onLost: z.enum(['rerun', 'hold']).optional(),
  /** The schedule that made the job, and the nominal time it was made for. */
  occurrence: z.object({ schedule: z.string(), nominalAt: z.string() }).optional(),
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
    /** Every server a worker may connect to, this one included. */
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
  /** The lease was renewed in the database after this beat had come: it holds `leaseMs` from when the beat was sent. */
  z.object({ kind: z.literal('beat'), beat: z.int(), servers: z.array(z.string()) }),
  /** The worker gives back what it has not started: it, its queues, its types or the cluster were paused. */
  z.object({ kind: z.literal('handBack') }),
  /** The server is going; the worker connects to another one. */
  z.object({ kind: z.literal('moveOn') }),
  z.object({ kind: z.literal('refused'), code: z.string(), message: z.string() }),
]);
export type ServerMessage = z.infer<typeof serverMessageSchema>;
