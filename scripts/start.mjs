/**
 * `npm start`: makes the repository ready, then becomes `drover dev`. It is one process, so a signal that
 * reaches it has reached Drover and nothing has to be forwarded.
 */
import { pathToFileURL } from 'node:url';
import { cli, setup } from './setup.mjs';

const PARENT_CHECK_MS = 500;

setup();
stopWithParent();
process.argv = [process.execPath, cli, 'dev', ...process.argv.slice(2)];
await import(pathToFileURL(cli).href);

/**
 * npm runs scripts through a shell, and a shell that is told to end does not tell us. So when our parent is
 * gone, we stop as if the signal had come here.
 */
function stopWithParent() {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGTERM');
  }, PARENT_CHECK_MS);
  timer.unref();
}
