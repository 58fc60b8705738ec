/** The environment of a process that uses a failpoint or runs without safety mechanisms. */
import type { SafetyMechanism } from '@drover/protocol/test-points';

const PRELOAD = new URL('./preload.mjs', import.meta.url).href;

export type TestPoints = {
  /** `place:count[:kill|stop]` */
  failpoint?: string | undefined;
  without?: readonly SafetyMechanism[] | undefined;
};

/** Empty if neither is used: such a process runs exactly what is published. */
export function environmentOf({ failpoint = '', without = [] }: TestPoints): Record<string, string> {
  if (failpoint === '' && without.length === 0) return {};
  return {
    NODE_OPTIONS: `--import ${PRELOAD}`,
    DROVER_TEST_FAILPOINT: failpoint,
    DROVER_TEST_WITHOUT: without.join(','),
  };
}
