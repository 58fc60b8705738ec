/**
 * What a worker and the process of an isolated handler say to each other, as JSON over Node's IPC channel.
 *
 * ```
 * worker                        process
 *   ◄─────────────── ready | unusable     its module is loaded, or cannot be
 *   run ──────────────────────────►       one job at a time
 *   ◄──────────────── log, progress
 *   interrupt ────────────────────►       the job's signal aborts
 *   ◄───────────────────────── ended      with the outcome, made there by the same code as everywhere
 *   end ──────────────────────────►       the process exits
 * ```
 *
 * The worker is authoritative: it alone decides that a process is to die, and believes nothing of it but an
 * outcome of the job it was given. A process that says nothing is judged by its end.
 *
 * Beside the channel there is the lifeline, a socket whose other end only the worker holds: when the worker
 * dies, however it dies, the kernel closes it and the watchdog thread of the process kills it with everything
 * it started. The other way it carries the watchdog's last word (see `watchdog.ts`).
 */
import { type Assignment, type Outcome, outcomeSchema } from '@drover/protocol';
import type { LogFields, Logger } from '../../logger.js';
import type { InterruptedError, StopReason } from '../attempt.js';

/** The place of the lifeline in the process; 0 to 2 are its standard streams and 3 is the channel. */
export const LIFELINE_FD = 4;
/** What everything that the process starts inherits in its environment, and is found by. */
export const MARK_VARIABLE = 'DROVER_ISOLATED_PROCESS';

export type ToProcess =
  | { kind: 'run'; assignment: Assignment }
  /** The reason decides the outcome; code and message are what the handler finds in its signal. */
  | { kind: 'interrupt'; reason: StopReason; code: InterruptedError['code']; message: string }
  | { kind: 'end' };

export type FromProcess =
  | { kind: 'ready' }
  | { kind: 'unusable'; message: string; stack: string }
  | { kind: 'log'; level: keyof Logger; fields: LogFields; message: string }
  | { kind: 'progress'; value: string }
  /** No outcome: the job was lost. `leftovers` is how many processes that the handler started still run. */
  | { kind: 'ended'; outcome: Outcome | undefined; leftovers: number };

/** Around each message: handlers and their libraries may use the channel too. */
export type Envelope<Message> = { drover: Message };

/** The message in what came over the channel; nothing if it is not one of ours. */
export function toProcessMessage(raw: unknown): ToProcess | undefined {
  return hasKind(raw) ? (raw.drover as ToProcess) : undefined;
}

export function fromProcessMessage(raw: unknown): FromProcess | undefined {
  if (!hasKind(raw)) return undefined;
  const message = raw.drover as FromProcess;
  if (message.kind !== 'ended' || message.outcome === undefined) return message;
  const parsed = outcomeSchema.safeParse(message.outcome);
  return parsed.success ? { ...message, outcome: parsed.data } : undefined;
}

function hasKind(raw: unknown): raw is Envelope<{ kind: string }> {
  if (typeof raw !== 'object' || raw === null || !('drover' in raw)) return false;
  const { drover } = raw;
  return typeof drover === 'object' && drover !== null && 'kind' in drover;
}
