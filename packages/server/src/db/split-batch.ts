/**
 * Runs a statement over a batch that several peers share, so that a bad item harms only its sender: a batch that the
 * database refuses is halved until the item at fault is alone and refused.
 *
 * It is the second line of defence. The first are the schemas of the protocol, because halving delays the others by a
 * few statements.
 */
import { DatabaseError, isPassing } from './database-error.js';

/** PostgreSQL's class of errors in a statement: an unknown column, a missing right. No value causes them. */
const STATEMENT_ERROR = '42';

export type SplitBatch<Item, Result> = {
  /** One result per item, in order. */
  run(items: readonly Item[]): Promise<readonly Result[]>;
  /** The result of the item that is at fault. */
  refuse(item: Item, error: Error): Result | Error | Promise<Result | Error>;
};

/** Never rejects. When the failure is not due to an item, every item of its part gets the error. */
export async function splitBatch<Item, Result>(
  items: readonly Item[],
  batch: SplitBatch<Item, Result>,
): Promise<(Result | Error)[]> {
  try {
    return [...(await batch.run(items))];
  } catch (error) {
    if (!isDueToAnItem(error)) return items.map(() => error as Error);
    if (items.length === 1) return [await refusal(batch, items[0] as Item, error as Error)];
    const middle = Math.ceil(items.length / 2);
    const first = await splitBatch(items.slice(0, middle), batch);
    return [...first, ...(await splitBatch(items.slice(middle), batch))];
  }
}

async function refusal<Item, Result>(
  batch: SplitBatch<Item, Result>,
  item: Item,
  error: Error,
): Promise<Result | Error> {
  try {
    return await batch.refuse(item, error);
  } catch (other) {
    return other as Error;
  }
}

function isDueToAnItem(error: unknown): boolean {
  if (isPassing(error)) return false;
  return !(error instanceof DatabaseError && error.sqlState?.startsWith(STATEMENT_ERROR));
}
