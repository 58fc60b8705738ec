/**
 * Parses frames of a worker. Plain successes in an `outcomes` frame are frequent and checked by hand, fifteen times
 * faster than by the schema; everything else is checked by the schema.
 */
import {
  invalidInput,
  isUuid,
  LIMITS,
  type Outcome,
  outcomeSchema,
  type WorkerMessage,
  workerMessageSchema,
} from '@drover/protocol';

/** Throws DroverError('invalid_request') if the text is not a frame of the protocol. */
export function readFrame(text: string): WorkerMessage {
  const frame: unknown = JSON.parse(text);
  if (isOutcomesFrame(frame)) return { kind: 'outcomes', items: frame.items.map(readOutcome), batch: frame.batch };
  const parsed = workerMessageSchema.safeParse(frame);
  if (!parsed.success) throw invalidInput(parsed.error, frame);
  return parsed.data;
}

function isOutcomesFrame(frame: unknown): frame is { items: unknown[]; batch: number | undefined } {
  const { kind, items, batch } = (frame ?? {}) as { kind?: unknown; items?: unknown; batch?: unknown };
  return (
    kind === 'outcomes' &&
    Array.isArray(items) &&
    items.length <= LIMITS.frameItems &&
    (batch === undefined || (Number.isSafeInteger(batch) && Number(batch) >= 1))
  );
}

function readOutcome(item: unknown): Outcome {
  if (isPlainSuccess(item)) return item;
  const parsed = outcomeSchema.safeParse(item);
  if (!parsed.success) throw invalidInput(parsed.error, item);
  return parsed.data;
}

function isPlainSuccess(item: unknown): item is Extract<Outcome, { kind: 'succeeded' }> {
  if (typeof item !== 'object' || item === null) return false;
  const { kind, id, fence, runMs, result, children } = item as Record<string, unknown>;
  return (
    kind === 'succeeded' &&
    typeof id === 'string' &&
    isUuid(id) &&
    Number.isInteger(fence) &&
    Number(fence) <= LIMITS.int &&
    // JSON.parse parses 1e999 as Infinity
    Number.isFinite(runMs) &&
    Number(runMs) >= 0 &&
    (result === undefined || typeof result === 'string') &&
    children === undefined
  );
}
