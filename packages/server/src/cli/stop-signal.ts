/**
 * Turns the signals of the operating system into one AbortSignal. The first signal requests a clean stop; a later one
 * ends the process at once.
 */

/**
 * Ctrl-C reaches every process of the terminal, and npm passes it on to its child again. So a signal that follows
 * within this time is the same one.
 */
const SAME_SIGNAL_MS = 1000;
const IMPATIENT_EXIT_CODE = 130;

/** `ignore` gives the signals back to Node. */
function stopOnSignals(): { signal: AbortSignal; ignore: () => void } {
  const controller = new AbortController();
  let firstAt: number | undefined;
  const onSignal = (name: string) => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      controller.abort(new Error(`stopped by ${name}`));
    } else if (performance.now() - firstAt > SAME_SIGNAL_MS) {
      process.exit(IMPATIENT_EXIT_CODE);
    }
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  // A process that was started with an IPC channel ends with its parent.
  const onDisconnect = () => onSignal('disconnect');
  if (process.channel) {
    process.on('disconnect', onDisconnect);
    process.channel.unref();
  }
  // The reader of our output is gone (`drover dev | head`).
  const onClosedOutput = () => onSignal('closed output');
  process.stdout.on('error', onClosedOutput);
  return {
    signal: controller.signal,
    ignore() {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
      process.off('disconnect', onDisconnect);
      process.stdout.off('error', onClosedOutput);
    },
  };
}

/** Resolves when the signal aborts. */
function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Keeps what was started and stops it in reverse order. All of it is stopped, even if one stop fails. */
export class Teardown {
  readonly #steps: (() => Promise<void>)[] = [];

  add(stop: () => Promise<void>): void {
    this.#steps.push(stop);
  }

  async run(): Promise<void> {
    const problems: unknown[] = [];
    for (let stop = this.#steps.pop(); stop; stop = this.#steps.pop()) {
      await stop().catch((error: unknown) => problems.push(error));
    }
    if (problems.length > 0) throw problems[0];
  }
}

/**
 * Starts something, runs it until a signal arrives, and stops it. The parts of a failed or interrupted start are
 * stopped as well.
 */
export async function runUntilStopped(
  start: (running: { signal: AbortSignal; teardown: Teardown }) => Promise<void>,
): Promise<void> {
  const { signal, ignore } = stopOnSignals();
  const teardown = new Teardown();
  try {
    await start({ signal, teardown });
    await whenAborted(signal);
  } catch (error) {
    const wasInterrupted = signal.aborted && error === signal.reason;
    if (!wasInterrupted) throw error;
  } finally {
    await teardown.run().finally(ignore);
  }
}
