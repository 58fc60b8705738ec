/**
 * `npm test`: prepares the repository, runs the tests, and then a short run of the fault suite. Arguments are passed
 * to vitest (`npm test -- cli`); with arguments the fault run is skipped, unless one of them is `faults`.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { installForTests } from './debian-tools.mjs';
import { root, setup } from './setup.mjs';

/** Long enough for every episode of the plan. The seed is fixed, so that each run has the same faults. */
const FAULT_RUN = ['--minutes', '1.8', '--rate', '120', '--seed', '1811'];
/** Exit code of the fault suite on a machine that cannot run it. */
const NOT_POSSIBLE = 2;

const args = process.argv.slice(2);
const filters = args.filter((arg) => arg !== 'faults');
const started = performance.now();

setup();
if (args.length === 0 || filters.length > 0) runVitest();
if (args.length === 0 || args.includes('faults')) runFaults();
console.log(`All tests passed in ${seconds()} s.`);

function runVitest() {
  installForTests(filters.filter((arg) => !arg.startsWith('-')));
  const status = run('node_modules/vitest/vitest.mjs', ['run', ...filters]);
  if (status !== 0) fail(status);
}

function runFaults() {
  console.log('\nA short run of the fault suite:');
  const status = run('scripts/chaos.mjs', FAULT_RUN);
  if (status === 0) return;
  if (status !== NOT_POSSIBLE || process.env.CI) fail(status);
  console.warn(
    '\nTHE FAULT RUN WAS LEFT OUT: this machine cannot run it (see above). With CI set this is a failure.\n',
  );
}

function run(program, programArgs) {
  return (
    spawnSync(process.execPath, [join(root, program), ...programArgs], { cwd: root, stdio: 'inherit' }).status ?? 1
  );
}

function fail(status) {
  console.log(`Tests failed after ${seconds()} s.`);
  process.exit(status);
}

function seconds() {
  return Math.round((performance.now() - started) / 1000);
}
