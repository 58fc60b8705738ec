/**
 * Safety mechanisms that a test can switch off (`DROVER_TEST_WITHOUT=fencing,beacon`) to see that it would
 * notice their absence. A suite whose negative controls stay green is worthless. Never set it elsewhere.
 */
const off = new Set((process.env.DROVER_TEST_WITHOUT ?? '').split(',').filter(Boolean));

export type SafetyMechanism = 'fencing' | 'beacon';

export function isSwitchedOff(mechanism: SafetyMechanism): boolean {
  return off.has(mechanism);
}
