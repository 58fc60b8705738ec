/**
 * Gather, never wait: what comes in while a flush is under way goes together in the next one. There is no
 * timer, so an idle system keeps the latency of a single item and a busy one gets batches of hundreds.
 *
 * Where nothing is under way an item goes by itself before `add` returns: left to a microtask, a job that was added alone took
 * 3 to 4 % longer (medians of 21 rounds of 1,500, in turn, twice).
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
  /**
   * Gives one result an item, in order; an error is the failure of that item. If it rejects, every item of the batch fails
   * with that.
   */
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
  let pending = 0;
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
        finish(batch);
      },
      (error: unknown) => {
        for (const { reject } of batch) reject(error);
        finish(batch);
      },
    );
  }

  /** What it throws is a failure of the batch too: nothing may be counted as under way for ever. */
  function flush(batch: Waiting<Item, Result>[]): Promise<(Result | Error)[]> {
    try {
      return options.flush(batch.map((entry) => entry.item));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  function finish(batch: Waiting<Item, Result>[]): void {
    for (const { weight } of batch) pending -= weight;
    underWay -= 1;
    start();
  }

  function start(): void {
    while (waiting.length > 0 && underWay < options.concurrency) {
      underWay += 1;
      run(takeBatch());
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
        const entry = { item, weight, resolve, reject };
        if (underWay === 0 && waiting.length === 0) {
          underWay = 1;
          run([entry]);
          return;
        }
        waiting.push(entry);
        waitingWeight += weight;
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
