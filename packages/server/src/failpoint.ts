/**
 * Places where a test lets this process die or stand still: `DROVER_FAILPOINT=name:count[:action]` acts when
 * the place is passed for the count-th time. `kill` (default) is SIGKILL, `stop` is SIGSTOP. Without the
 * variable a place costs one comparison.
 */
const [name, count = '1', action = 'kill'] = (process.env.DROVER_FAILPOINT ?? '').split(':');
let left = name ? Number(count) : 0;

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

export function failpoint(place: Failpoint | ScheduleFailpoint): void {
  if (left === 0 || place !== name) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, action === 'stop' ? 'SIGSTOP' : 'SIGKILL');
}
