/**
 * The messages between a worker and the process of an isolated handler, as JSON over Node's IPC channel.
 *
 * ```
 * worker                        process
 *   ◄─────────────── ready | unusable     its module is loaded, or cannot be
 *   run ──────────────────────────►       one job at a time
 *   ◄──────────────── log, progress
 *   interrupt ────────────────────►       the job's signal aborts
 *   ◄───────────────────────── ended      with the outcome, made by the same code as in-process
 *   end ──────────────────────────►       the process exits
 * ```
 *
 * The worker is authoritative: only it decides that a process must die, and it accepts nothing from the process
 * except the outcome of the current job. A process that ends without an outcome is judged by its exit.
 *
 * In addition to the channel there is the lifeline, a socket whose other end only the worker holds. When the worker
 * dies for any reason, the kernel closes it, and the watchdog thread kills the process with all its descendants. In
 * the other direction the lifeline carries the watchdog's last message (see `watchdog.ts`).
 */
import { type Assignment, type Outcome, outcomeSchema } from '@drover/protocol';
import type { LogFields, Logger } from '../../logger.js';
import type { InterruptedError, StopReason } from '../attempt.js';

/** The lifeline's descriptor in the process. 0 to 2 are the standard streams and 3 is the channel. */
export const LIFELINE_FD = 4;
/** Environment variable that all descendants of the process inherit, and by which they are found. */
export const MARK_VARIABLE = 'DROVER_ISOLATED_PROCESS';

export type ToProcess =
  | { kind: 'run'; assignment: Assignment }
  /** The reason decides the outcome. Code and message are what the handler finds in its signal. */
  | { kind: 'interrupt'; reason: StopReason; code: InterruptedError['code']; message: string }
  | { kind: 'end' };

export type FromProcess =
  | { kind: 'ready' }
  | { kind: 'unusable'; message: string; stack: string }
  | { kind: 'log'; level: keyof Logger; fields: LogFields; message: string }
  | { kind: 'progress'; value: string }
  /** No outcome: the job was lost. `leftovers` counts processes of the handler that still run. */
  | { kind: 'ended'; outcome: Outcome | undefined; leftovers: number };

/** Wraps each message, because handlers and their libraries may use the channel too. */
export type Envelope<Message> = { drover: Message };

/** The message that arrived on the channel; undefined if it is not one of ours. */
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
