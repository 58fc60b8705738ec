/**
 * Preloaded into a process whose wall clock a test sets: `{ clockAheadMs }` over its channel. Timers and the
 * monotonic clock do not change, as when the clock of a machine is set.
 */
const RealDate = Date;
let aheadMs = 0;
const now = () => RealDate.now() + aheadMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [now()] : given, made),
  apply: () => new RealDate(now()).toString(),
  get: (target, key, receiver) => (key === 'now' ? now : Reflect.get(target, key, receiver)),
});

process.on('message', (message) => {
  if (typeof message?.clockAheadMs === 'number') aheadMs = message.clockAheadMs;
});
// listening must not keep the process alive
process.channel?.unref();
