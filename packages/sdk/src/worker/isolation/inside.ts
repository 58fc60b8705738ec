/** Whether this is the process of an isolated handler. */
const MARK = Symbol.for('drover.isolatedProcess');

/** A registered symbol: other copies of the SDK, which the handler's module may bring, see it too. */
export function markAsIsolated(): void {
  Reflect.set(globalThis, MARK, true);
}

export function isIsolatedProcess(): boolean {
  return Reflect.get(globalThis, MARK) === true;
}
