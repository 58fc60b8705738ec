/**
 * Safety mechanisms of the worker that a test can switch off (`DROVER_TEST_WITHOUT=self-stop`) to see that it would
 * notice their absence. The server has its own. Never set it elsewhere.
 */
const off = new Set((process.env.DROVER_TEST_WITHOUT ?? '').split(',').filter(Boolean));

export type SafetyMechanism = 'self-stop';

export function isSwitchedOff(mechanism: SafetyMechanism): boolean {
  return off.has(mechanism);
}
