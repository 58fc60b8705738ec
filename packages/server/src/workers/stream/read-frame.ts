/**
 * Parses frames of a worker. Plain successes in an `outcomes` frame are frequent and checked by hand, fifteen times
 * faster than by the schema; everything else is checked by the schema.
 */
import {
  checkJsonShape,
  DroverError,
  type Grant,
  invalidInput,
  isUuid,
  LIMITS,
  type Outcome,
  outcomeSchema,
  type WorkerMessage,
  workerMessageSchema,
} from '@drover/protocol';

/** Characters. Parsing a shorter frame is cheap whatever it contains, and counting its values would slow down every frame. */
const CHEAP_LENGTH = 1024 * 1024;

/** Throws DroverError if the text is not a frame of the protocol. */
export function readFrame(text: string): WorkerMessage {
  if (text.length > CHEAP_LENGTH) checkJsonShape(text, '(frame)');
  const frame: unknown = JSON.parse(text);
  if (isOutcomesFrame(frame)) {
    checkChildren(frame.items);
    return { kind: 'outcomes', items: frame.items.map(readOutcome), batch: frame.batch };
  }
  const holds = plainGrants(frame);
  const parsed = workerMessageSchema.safeParse(holds ? { ...(frame as object), holds: [] } : frame);
  if (!parsed.success) throw invalidInput(parsed.error, frame);
  return holds ? ({ ...parsed.data, holds } as WorkerMessage) : parsed.data;
}

/** The grants of a hello if all are as they should be: there may be as many as `LIMITS.grants`. */
function plainGrants(frame: unknown): Grant[] | undefined {
  const { kind, holds } = (frame ?? {}) as { kind?: unknown; holds?: unknown };
  if (kind !== 'hello' || !Array.isArray(holds) || holds.length > LIMITS.grants) return undefined;
  const grants: Grant[] = [];
  for (const grant of holds as readonly unknown[]) {
    const { id, fence } = (grant ?? {}) as { id?: unknown; fence?: unknown };
    if (typeof id !== 'string' || !isUuid(id) || !isFence(fence)) return undefined;
    grants.push({ id: id.toLowerCase(), fence });
  }
  return grants;
}

function isFence(fence: unknown): fence is number {
  return Number.isInteger(fence) && Number(fence) >= 1 && Number(fence) <= LIMITS.int;
}

function isOutcomesFrame(frame: unknown): frame is { items: unknown[]; batch: number | undefined } {
  const { kind, items, batch } = (frame ?? {}) as { kind?: unknown; items?: unknown; batch?: unknown };
  return (
    kind === 'outcomes' &&
    Array.isArray(items) &&
    items.length <= LIMITS.frameOutcomes &&
    (batch === undefined || (Number.isSafeInteger(batch) && Number(batch) >= 1))
  );
}

/** Before they are read, because each is checked by the schema of a new job. */
function checkChildren(items: readonly unknown[]): void {
  let total = 0;
  for (const item of items) {
    const { children } = (item ?? {}) as { children?: unknown };
    if (Array.isArray(children)) total += children.length;
  }
  if (total <= LIMITS.frameChildren) return;
  const message = `items: expected at most ${LIMITS.frameChildren} children in one frame, got ${total}`;
  throw new DroverError('invalid_request', message);
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
    isFence(fence) &&
    // JSON.parse parses 1e999 as Infinity
    Number.isFinite(runMs) &&
    Number(runMs) >= 0 &&
    (result === undefined || typeof result === 'string') &&
    children === undefined
  );
}
