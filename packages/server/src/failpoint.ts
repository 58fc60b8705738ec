/**
 * Places where a test lets this process die or stand still: `DROVER_FAILPOINT=name:count[:action]` acts when
 * the place is passed for the count-th time. `kill` (default) is SIGKILL, `stop` is SIGSTOP. Without the
 * variable a place costs one comparison. One that does not exist is refused: its test would prove nothing.
 */

/** Every place there is, in the order of a job's life. */
export const FAILPOINTS = [
  'insert.before',
  'insert.committed',
  'claim.committed',
  'claim.sent',
  'outcomes.before',
  'outcomes.committed',
  'session.opened',
  'renew.before',
  'lose.before',
] as const;
export type Failpoint = (typeof FAILPOINTS)[number];

/** Those of a schedule. */
export const SCHEDULE_FAILPOINTS = ['fire.before', 'fire.committed'] as const;
type ScheduleFailpoint = (typeof SCHEDULE_FAILPOINTS)[number];

const SIGNALS: Readonly<Record<string, NodeJS.Signals>> = { kill: 'SIGKILL', stop: 'SIGSTOP' };

const given = process.env.DROVER_FAILPOINT ?? '';
const [name = '', count = '1', action = 'kill'] = given.split(':');
const signal = SIGNALS[action];
let left = name === '' ? 0 : Number(count);
const places: readonly string[] = [...FAILPOINTS, ...SCHEDULE_FAILPOINTS];
if (given !== '' && (!places.includes(name) || !(left >= 1) || signal === undefined)) {
  throw new Error(`DROVER_FAILPOINT: expected place:count[:kill|stop] with one of ${places.join(', ')}, got ${given}`);
}

export function failpoint(place: Failpoint | ScheduleFailpoint): void {
  if (left === 0 || place !== name) return;
  left -= 1;
  if (left === 0 && signal !== undefined) process.kill(process.pid, signal);
}
