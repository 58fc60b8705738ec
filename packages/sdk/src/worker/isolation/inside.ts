/** Whether this is the process of an isolated handler. */
const MARK = Symbol.for('drover.isolatedProcess');

/** Known to every copy of the SDK that the handler's module may bring along. */
export function markAsIsolated(): void {
  Reflect.set(globalThis, MARK, true);
}

export function isIsolatedProcess(): boolean {
  return Reflect.get(globalThis, MARK) === true;
}
