/**
 * The servers that this run has started, so that an interrupted run leaves none behind. Producer and worker
 * processes need no entry: they end when their channel to the orchestrator closes.
 */
const STOP_TIMEOUT_MS = 20_000;
const owned = new Map();

/** Registers a child with the signal that stops it cleanly; gives back its stop. */
export function ownProcess(child, signal) {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal);
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await ended;
      clearTimeout(timer);
    }
    owned.delete(child.pid);
  };
  owned.set(child.pid, stop);
  return stop;
}

export function stopOwnedProcesses() {
  return Promise.allSettled([...owned.values()].map((stop) => stop()));
}
