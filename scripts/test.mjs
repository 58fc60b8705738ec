/** `npm test`: makes the repository ready and runs the tests. Arguments go to vitest: `npm test -- cli`. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { installForTests } from './debian-tools.mjs';
import { root, setup } from './setup.mjs';

const args = process.argv.slice(2);

setup();
installForTests(args.filter((arg) => !arg.startsWith('-')));
const started = performance.now();
const vitest = join(root, 'node_modules/vitest/vitest.mjs');
const { status } = spawnSync(process.execPath, [vitest, 'run', ...args], {
  cwd: root,
  stdio: 'inherit',
});
const seconds = Math.round((performance.now() - started) / 1000);
console.log(status === 0 ? `All tests passed in ${seconds} s.` : `Tests failed after ${seconds} s.`);
process.exit(status ?? 1);
