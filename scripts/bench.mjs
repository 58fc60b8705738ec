/**
 * `npm run bench`: prepares the benchmark and starts it. The peers are in bench/ with their own package.json,
 * together with a Node 22 (two peers require it) that runs every measured process, including Drover's.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const bench = join(root, 'bench');
const args = process.argv.slice(2);

const selected = optionValue('--only')?.split(',') ?? ['drover', 'bullmq', 'bee-queue'];
const wants = (name) => selected.some((entry) => entry.split('@')[0] === name);

if (!args.includes('--help')) {
  installPeers();
  if (wants('drover')) buildDrover();
  if (wants('bullmq') || wants('bee-queue')) installRedis();
}
const child = spawn(findNode(), [join(bench, 'run.mjs'), ...args], { cwd: root, stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
child.on('exit', (code) => process.exit(code ?? 1));

function installPeers() {
  // npm writes this file to node_modules when an installation is complete.
  if (existsSync(join(bench, 'node_modules/.package-lock.json'))) return;
  say('installing the peers into bench/node_modules');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: bench, stdio: 'inherit' });
}

function buildDrover() {
  say('building Drover');
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
}

function installRedis() {
  if (commandExists('redis-server')) return;
  if (process.getuid?.() !== 0 || !commandExists('apt-get')) return; // run.mjs reports what is left out
  say('redis-server is missing: installing it with apt-get (it is not started as a service by us)');
  const install = () => spawnSync('apt-get', ['install', '-y', '--no-install-recommends', 'redis-server']).status === 0;
  if (install()) return;
  spawnSync('apt-get', ['update']);
  if (!install()) say('apt-get could not install redis-server');
}

/** The platform package of `node` is the binary itself, so no install script is needed. */
function findNode() {
  const bundled = join(bench, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  if (existsSync(bundled)) return bundled;
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return process.execPath;
  throw new Error(`the benchmark needs Node 22.18 or later; there is none in bench/ for ${process.platform}`);
}

function commandExists(command) {
  return spawnSync('sh', ['-c', `command -v ${command}`]).status === 0;
}

function optionValue(name) {
  const index = args.findIndex((arg) => arg === name || arg.startsWith(`${name}=`));
  if (index < 0) return undefined;
  return args[index].includes('=') ? args[index].slice(name.length + 1) : args[index + 1];
}

function say(text) {
  console.log(`bench: ${text}`);
}
