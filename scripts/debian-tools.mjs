/** Tools that some tests need and that Debian has: installed where we may, and told of where they stay missing. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const APT_GET = '/usr/bin/apt-get';

/** Takes command → package. Gives the commands that are still missing. */
export function installMissing(tools, purpose) {
  const missing = Object.keys(tools).filter((tool) => !hasCommand(tool));
  if (missing.length > 0 && process.getuid?.() === 0 && existsSync(APT_GET)) {
    const packages = [...new Set(missing.map((tool) => tools[tool]))];
    console.log(`Installing the Debian packages ${packages.join(', ')}, ${purpose} …`);
    if (!install(packages)) {
      spawnSync(APT_GET, ['update']);
      install(packages);
    }
  }
  return missing.filter((tool) => !hasCommand(tool));
}

function install(packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  return spawnSync(APT_GET, ['install', '-y', '--no-install-recommends', ...packages], { env }).status === 0;
}

function hasCommand(command) {
  const env = { PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
  return spawnSync('sh', ['-c', `command -v ${command}`], { env }).status === 0;
}
