/**
 * `npm start`: prepares the repository, then becomes `drover dev`. Both run in one process, so signals need no
 * forwarding.
 */
import { pathToFileURL } from 'node:url';
import { cli, setup } from './setup.mjs';

const PARENT_CHECK_MS = 500;

setup();
stopWithParent();
process.argv = [process.execPath, cli, 'dev', ...process.argv.slice(2)];
await import(pathToFileURL(cli).href);

/**
 * npm runs scripts through a shell that does not forward signals. So when our parent process ends, we stop as if the
 * signal had come here.
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
