/**
 * Calls from the orchestrator to a child process: `{ id, method, argument }` one way, `{ id, result | error }`
 * back, over Node's own IPC channel. A child ends when the channel closes, so none outlives the orchestrator.
 */
import { fork } from 'node:child_process';
import { sleep } from './clock.mjs';

const STOP_TIMEOUT_MS = 10_000;

/** Starts a script and gives its methods back as `call(method, argument)`. Its output goes to `log`. */
export async function startProcess(script, argument, { log }) {
  const child = fork(script, [JSON.stringify(argument)], { stdio: ['ignore', log, log, 'ipc'] });
  const waiting = new Map();
  let nextId = 1;
  let ended = false;
  child.on('message', ({ id, result, error }) => {
    const call = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(error));
  });
  child.on('exit', (code, signal) => {
    ended = true;
    for (const call of waiting.values()) call.reject(new Error(`${script} ended (${signal ?? code})`));
    waiting.clear();
  });

  const call = (method, value) =>
    new Promise((resolve, reject) => {
      if (ended) return reject(new Error(`${script} has ended`));
      const id = nextId++;
      waiting.set(id, { resolve, reject });
      child.send({ id, method, argument: value });
    });

  const stop = async () => {
    if (ended) return;
    child.disconnect();
    const giveUpAt = Date.now() + STOP_TIMEOUT_MS;
    while (!ended && Date.now() < giveUpAt) await sleep(10);
    if (!ended) child.kill('SIGKILL');
  };

  await call('ready');
  return { pid: child.pid, call, stop };
}

/** The child's side. `methods.close`, when there is one, is called before the process ends. */
export function serveCalls(methods) {
  process.on('message', async ({ id, method, argument }) => {
    try {
      const result = method === 'ready' ? true : await methods[method](argument);
      process.send({ id, result });
    } catch (error) {
      process.send({ id, error: error?.stack ?? String(error) });
    }
  });
  process.on('disconnect', async () => {
    setTimeout(() => process.exit(0), STOP_TIMEOUT_MS / 2);
    try {
      await methods.close?.();
    } finally {
      process.exit(0);
    }
  });
}
