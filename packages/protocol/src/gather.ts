/**
 * Batches items without a timer: what is added in one turn of the event loop is flushed together, and items that arrive
 * while as many flushes are running as may share the next one. An idle system keeps the latency of a single item, and a
 * busy one gets batches of hundreds. The client batches its enqueues so, and the server its statements.
 *
 * Invariants: an item is in exactly one flush; at most `concurrency` flushes run at once; a flush weighs at most
 * `maxWeight`, unless a single item is heavier.
 */
export type Gatherer<Item, Result> = {
  /** Resolves with the flush's result for this item. */
  add(item: Item): Promise<Result>;
  /** Resolves when nothing is waiting or running. */
  idle(): Promise<void>;
};

export type GathererOptions<Item, Result> = {
  /** Returns one result per item, in order. An error fails that item. A rejection fails every item of the batch. */
  flush(items: Item[]): Promise<(Result | Error)[]>;
  weigh(item: Item): number;
  maxWeight: number;
  concurrency: number;
};

type Waiting<Item, Result> = {
  item: Item;
  weight: number;
  resolve(result: Result): void;
  reject(error: unknown): void;
};

export function createGatherer<Item, Result>(options: GathererOptions<Item, Result>): Gatherer<Item, Result> {
  let waiting: Waiting<Item, Result>[] = [];
  let waitingWeight = 0;
  let underWay = 0;
  let idleWaiters: (() => void)[] = [];

  function takeBatch(): Waiting<Item, Result>[] {
    const batch = waiting;
    if (waitingWeight <= options.maxWeight) {
      waiting = [];
      waitingWeight = 0;
      return batch;
    }
    let weight = (batch[0] as Waiting<Item, Result>).weight;
    let end = 1;
    for (; end < batch.length; end++) {
      const next = (batch[end] as Waiting<Item, Result>).weight;
      if (weight + next > options.maxWeight) break;
      weight += next;
    }
    waiting = batch.slice(end);
    waitingWeight -= weight;
    return batch.slice(0, end);
  }

  function run(batch: Waiting<Item, Result>[]): void {
    flush(batch).then(
      (results) => {
        for (let index = 0; index < batch.length; index++) {
          const { resolve, reject } = batch[index] as Waiting<Item, Result>;
          const result = results[index] as Result | Error;
          if (result instanceof Error) reject(result);
          else resolve(result);
        }
        finish();
      },
      (error: unknown) => {
        for (const { reject } of batch) reject(error);
        finish();
      },
    );
  }

  /** A synchronous exception also fails the batch; otherwise its items would count as running forever. */
  function flush(batch: Waiting<Item, Result>[]): Promise<(Result | Error)[]> {
    try {
      return options.flush(batch.map((entry) => entry.item));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  function finish(): void {
    underWay -= 1;
    start();
  }

  function isIdle(): boolean {
    return waiting.length === 0 && underWay === 0;
  }

  function start(): void {
    while (waiting.length > 0 && underWay < options.concurrency) {
      underWay += 1;
      run(takeBatch());
    }
    if (isIdle()) {
      for (const resolve of idleWaiters) resolve();
      idleWaiters = [];
    }
  }

  return {
    add(item) {
      const weight = options.weigh(item);
      return new Promise((resolve, reject) => {
        waitingWeight += weight;
        // in a microtask, so that calls of the same turn are batched
        if (waiting.push({ item, weight, resolve, reject }) === 1) queueMicrotask(start);
      });
    },
    idle() {
      if (isIdle()) return Promise.resolve();
      return new Promise((resolve) => idleWaiters.push(resolve));
    },
  };
}
