/**
 * Replaces `packages/protocol/src/test-points.ts` in a process that a test starts.
 * `DROVER_TEST_FAILPOINT=place:count[:action]` acts when the place is passed for the count-th time: `kill` (default)
 * is SIGKILL, `stop` is SIGSTOP. `DROVER_TEST_WITHOUT=fencing,beacon` turns safety mechanisms off. A value without an
 * effect is refused, because its test would prove nothing.
 */
import { FAILPOINTS, SAFETY_MECHANISMS } from '../../../packages/protocol/dist/test-points.js';

// the lists; the two functions below take precedence
export * from '../../../packages/protocol/dist/test-points.js';

const SIGNALS = { kill: 'SIGKILL', stop: 'SIGSTOP' };

const { DROVER_TEST_FAILPOINT: given = '', DROVER_TEST_WITHOUT: without = '' } = process.env;
const off = without.split(',').filter(Boolean);
const [name, count = '1', action = 'kill'] = given.split(':');
let left = name === '' ? 0 : Number(count);
checkSettings();

export function failpoint(place) {
  if (left === 0 || place !== name) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, SIGNALS[action]);
}

export function isSwitchedOff(mechanism) {
  return off.includes(mechanism);
}

function checkSettings() {
  const places = Object.values(FAILPOINTS).flat();
  if (given !== '' && !(places.includes(name) && left >= 1 && action in SIGNALS)) {
    throw new Error(
      `DROVER_TEST_FAILPOINT: expected place:count[:kill|stop] with one of ${places.join(', ')}, got ${given}`,
    );
  }
  const unknown = off.filter((mechanism) => !SAFETY_MECHANISMS.includes(mechanism));
  if (unknown.length > 0) {
    throw new Error(`DROVER_TEST_WITHOUT: expected some of ${SAFETY_MECHANISMS.join(', ')}, got ${without}`);
  }
}
