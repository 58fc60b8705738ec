/**
 * Runs a function periodically: the next round starts `everyMs` after the last one began, and rounds never overlap. A
 * failed round is logged and the next one tries again; it cannot end the process or stop later rounds.
 */
import type { Logger } from 'pino';

export type Periodic = { start(): void; stop(): Promise<void> };

export function createPeriodic(name: string, everyMs: number, round: () => Promise<void>, logger: Logger): Periodic {
  let timer: NodeJS.Timeout | undefined;
  let underWay: Promise<void> | undefined;
  let stopped = true;

  function run(): void {
    const began = performance.now();
    underWay = round()
      .catch((error: Error) =>
        logger.warn({ event: 'duty.failed', err: error, duty: name }, `${name} failed, trying again`),
      )
      .then(() => {
        if (!stopped) timer = setTimeout(run, Math.max(0, everyMs - (performance.now() - began)));
      });
  }

  return {
    start() {
      stopped = false;
      run();
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await underWay;
    },
  };
}
