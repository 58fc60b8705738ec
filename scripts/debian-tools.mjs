/** Tools that some tests need and that Debian has: installed where we may, and told of where they stay missing. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const APT_GET = '/usr/bin/apt-get';
/** Of one apt-get. Its downloads give up long before that; a time-out in the midst of unpacking would leave a broken package. */
const APT_TIMEOUT_MS = 180_000;
const APT_OPTIONS = [
  '-qq',
  ...['-o', 'Acquire::Retries=1', '-o', 'Acquire::http::Timeout=15', '-o', 'Acquire::https::Timeout=15'],
  // somebody else may be installing at this moment
  ...['-o', 'DPkg::Lock::Timeout=60'],
];

/** Test file → what it needs: command → package. Without it, its tests are left out and say so; with CI set they fail. */
const OF_TESTS = { 'test/scenarios/clock-jumps.test.ts': { faketime: 'faketime' } };

/** For the test files whose path contains one of the filters; for all of them if there are none. */
export function installForTests(filters = []) {
  for (const [file, tools] of Object.entries(OF_TESTS)) {
    const isWanted = filters.length === 0 || filters.some((filter) => file.includes(filter));
    if (isWanted) installMissing(tools, `for ${file}`);
  }
}

/** Takes command → package. Gives the commands that are still missing. */
export function installMissing(tools, purpose) {
  const missing = Object.keys(tools).filter((tool) => !hasCommand(tool));
  if (missing.length > 0 && process.getuid?.() === 0 && existsSync(APT_GET)) {
    const packages = [...new Set(missing.map((tool) => tools[tool]))];
    console.log(`Installing the Debian packages ${packages.join(', ')}, ${purpose} …`);
    if (!install(packages)) {
      aptGet(['update']);
      install(packages);
    }
  }
  return missing.filter((tool) => !hasCommand(tool));
}

function install(packages) {
  return aptGet(['install', '-y', '--no-install-recommends', ...packages]);
}

function aptGet(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  return spawnSync(APT_GET, [...APT_OPTIONS, ...args], { env, timeout: APT_TIMEOUT_MS }).status === 0;
}

function hasCommand(command) {
  const env = { PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
  return spawnSync('sh', ['-c', `command -v ${command}`], { env }).status === 0;
}
