/**
 * Places where a test lets a worker's process die or stand still: `DROVER_WORKER_FAILPOINT=name:count[:action]` acts when
 * the place is passed for the count-th time. `kill` (default) is SIGKILL, `stop` is SIGSTOP. Without the variable a
 * place costs one comparison. One that does not exist is refused: its test would prove nothing. The
 * server has its own: the SDK and the server share only what both sides of the wire agree on.
 */

/** `hold.journaled`: the start of a `hold` job is durable, its handler has not been called. */
export const FAILPOINTS = ['hold.journaled'] as const;
export type Failpoint = (typeof FAILPOINTS)[number];

const SIGNALS: Readonly<Record<string, NodeJS.Signals>> = { kill: 'SIGKILL', stop: 'SIGSTOP' };

const given = process.env.DROVER_WORKER_FAILPOINT ?? '';
const [name = '', count = '1', action = 'kill'] = given.split(':');
const signal = SIGNALS[action];
let left = name === '' ? 0 : Number(count);
const places: readonly string[] = FAILPOINTS;
if (given !== '' && (!places.includes(name) || !(left >= 1) || signal === undefined)) {
  throw new Error(
    `DROVER_WORKER_FAILPOINT: expected place:count[:kill|stop] with one of ${places.join(', ')}, got ${given}`,
  );
}

export function failpoint(place: Failpoint): void {
  if (left === 0 || place !== name) return;
  left -= 1;
  if (left === 0 && signal !== undefined) process.kill(process.pid, signal);
}
