/** Tools from Debian packages that some tests need: installed where possible, otherwise reported. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const APT_GET = '/usr/bin/apt-get';
/**
 * Limit for one apt-get. Its downloads time out long before that; a timeout during unpacking would leave a broken
 * package.
 */
const APT_TIMEOUT_MS = 180_000;
const APT_OPTIONS = [
  '-qq',
  ...['-o', 'Acquire::Retries=1', '-o', 'Acquire::http::Timeout=15', '-o', 'Acquire::https::Timeout=15'],
  // another installation may be running
  ...['-o', 'DPkg::Lock::Timeout=60'],
];

/**
 * Test file → command → package. Without the command, the tests of the file are skipped with a message; with CI set
 * they fail.
 */
const OF_TESTS = { 'test/scenarios/clock-jumps.test.ts': { faketime: 'faketime' } };

/** Installs for the test files whose path contains one of the filters, or for all test files. */
export function installForTests(filters = []) {
  for (const [file, tools] of Object.entries(OF_TESTS)) {
    const isWanted = filters.length === 0 || filters.some((filter) => file.includes(filter));
    if (isWanted) installMissing(tools, `for ${file}`);
  }
}

/** Takes command → package. Returns the commands that are still missing. */
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
