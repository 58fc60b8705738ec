/**
 * Gather, never wait: what comes in while a flush is under way goes together in the next one. There is no
 * timer, so an idle system keeps the latency of a single item and a busy one gets batches of hundreds.
 *
 * What always holds: an item is in exactly one flush; at most `concurrency` flushes are under way; a flush
 * has at most `maxWeight`, unless a single item is heavier than that.
 */
export type Gatherer<Item, Result> = {
  /** Resolves with the flush's result for this item. */
  add(item: Item): Promise<Result>;
  /** The weight of everything that is not yet answered. */
  readonly pending: number;
  /** Resolves when nothing is waiting or under way. */
  idle(): Promise<void>;
};

export type GathererOptions<Item, Result> = {
  /** Gives one result an item, in order. If it throws, every item of the batch fails with that. */
  flush(items: Item[]): Promise<Result[]>;
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
  let underWay = 0;
  let pending = 0;
  let idleWaiters: (() => void)[] = [];

  function takeBatch(): Waiting<Item, Result>[] {
    let weight = 0;
    const end = waiting.findIndex((entry, index) => {
      weight += entry.weight;
      return index > 0 && weight > options.maxWeight;
    });
    const batch = end < 0 ? waiting : waiting.slice(0, end);
    waiting = end < 0 ? [] : waiting.slice(end);
    return batch;
  }

  async function run(batch: Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await options.flush(batch.map((entry) => entry.item));
      batch.forEach((entry, index) => {
        entry.resolve(results[index] as Result);
      });
    } catch (error) {
      for (const entry of batch) entry.reject(error);
    }
    for (const entry of batch) pending -= entry.weight;
    underWay -= 1;
    start();
  }

  function start(): void {
    while (waiting.length > 0 && underWay < options.concurrency) {
      underWay += 1;
      void run(takeBatch());
    }
    if (pending === 0 && underWay === 0) {
      for (const resolve of idleWaiters) resolve();
      idleWaiters = [];
    }
  }

  return {
    add(item) {
      const weight = options.weigh(item);
      pending += weight;
      return new Promise((resolve, reject) => {
        waiting.push({ item, weight, resolve, reject });
        // in a microtask, so that calls of the same turn go together
        if (waiting.length === 1) queueMicrotask(start);
      });
    },
    get pending() {
      return pending;
    },
    idle() {
      if (pending === 0 && underWay === 0) return Promise.resolve();
      return new Promise((resolve) => idleWaiters.push(resolve));
    },
  };
}
