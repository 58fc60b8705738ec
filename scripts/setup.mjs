/**
 * Prepares the repository: checks the version of Node, installs the packages of the lock file, and compiles the
 * sources. Completed steps are skipped, so every script can start with it.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const cli = join(root, 'packages/server/dist/cli/main.js');

const MIN_NODE = [20, 19];
const PACKAGES = ['packages/protocol', 'packages/sdk', 'packages/server'];

/** Ends the process with a clear message if the repository cannot be prepared. */
export function setup() {
  checkNode();
  install();
  build();
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [minMajor, minMinor] = MIN_NODE;
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return;
  fail(`Drover needs Node ${MIN_NODE.join('.')} or newer; this is ${process.versions.node}`);
}

export function install() {
  if (isInstalled()) return;
  console.log('Installing the packages of package-lock.json …');
  // `npm ci` installs exactly the locked versions and never writes the lock file. The compiler is a development
  // dependency, so development dependencies are installed even if NODE_ENV is production.
  const { status } = npm(['ci', '--include=dev', '--loglevel=error'], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) fail('npm ci failed; its messages are above');
}

/**
 * Whether node_modules matches the lock file, by the list that npm writes there; it is also correct after an `npm ci`
 * or `npm install` by hand. Optional packages may be missing, because most are for other platforms.
 */
function isInstalled() {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages ?? {};
  const present = readJson(join(root, 'node_modules/.package-lock.json'))?.packages ?? {};
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.startsWith('node_modules/')) return true;
    return present[path] ? present[path].version === entry.version : entry.optional || entry.peer;
  });
}

/** The compiler is incremental: without changes it takes well under a second. */
export function build() {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  if (!existsSync(cli)) console.log('Building …');
  writeThreadCode();
  const { status } = spawnSync(process.execPath, [tsc, '-b', ...PACKAGES], { cwd: root, stdio: 'inherit' });
  if (status !== 0) fail('the sources do not compile; the messages are above');
  for (const name of PACKAGES) {
    removeStaleOutput(join(root, name));
    writeCommonJsTypes(join(root, name, 'dist'));
  }
  // The compiler does not know that this file is a command.
  chmodSync(cli, 0o755);
  linkCommand();
}

/** The worker's link thread as a string, because a bundler would not find its file: see docs/decisions/0009. */
function writeThreadCode() {
  const link = join(root, 'packages/sdk/src/worker/link');
  const file = join(link, 'thread-code.ts');
  // Unchanged files are not compiled again.
  writeIfChanged(file, threadCode(join(link, 'thread.ts')));
}

function threadCode(entry) {
  const require = createRequire(import.meta.url);
  const { outputFiles } = require('esbuild').buildSync({
    ...{ entryPoints: [entry], bundle: true, write: false, platform: 'node', target: 'node20', format: 'cjs' },
    // From source, so that the order of the builds does not matter.
    alias: { '@drover/protocol': join(root, 'packages/protocol/src') },
    // A thread without a file would look for these optional packages of ws in the current folder.
    define: { 'process.env.WS_NO_BUFFER_UTIL': '"1"', 'process.env.WS_NO_UTF_8_VALIDATE': '"1"' },
    minifySyntax: true,
    footer: { js: '//# sourceURL=drover-link-thread' },
  });
  const licence = readFileSync(require.resolve('ws/package.json').replace('package.json', 'LICENSE'), 'utf8');
  return [
    '/** Made by `npm run build`: `thread.ts` with all that it imports.',
    ' *',
    ' * It contains the package ws:',
    ' *',
    ...licence
      .trim()
      .split('\n')
      .map((line) => ` * ${line}`.trimEnd()),
    ' */',
    `export const THREAD_CODE: string = ${JSON.stringify(outputFiles[0].text)};`,
    '',
  ].join('\n');
}

/** The compiler keeps the output of deleted sources, and npm would publish it. */
function removeStaleOutput(folder) {
  for (const file of readdirSync(join(folder, 'dist'), { recursive: true })) {
    const module = /^(?:commonjs[/\\])?(.*?)(\.d\.ts|\.js)(\.map)?$/.exec(file)?.[1];
    if (module !== undefined && !existsSync(join(folder, 'src', `${module}.ts`))) rmSync(join(folder, 'dist', file));
  }
}

/**
 * The same types for importers in CommonJS: see docs/decisions/0024. Only the types exist twice, because Node loads
 * the same modules for both.
 */
function writeCommonJsTypes(dist) {
  const files = readdirSync(dist, { recursive: true }).filter((file) => file.endsWith('.d.ts'));
  for (const file of files.filter((name) => !name.startsWith('commonjs'))) {
    writeIfChanged(join(dist, 'commonjs', file), readFileSync(join(dist, file), 'utf8'));
  }
  writeIfChanged(join(dist, 'commonjs/package.json'), '{ "type": "commonjs" }\n');
}

export function writeIfChanged(file, text) {
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

/** npm links a command when it installs, but only if its file exists, which it does not before the first build. */
function linkCommand() {
  const link = join(root, 'node_modules/.bin/drover');
  if (process.platform === 'win32' || existsSync(link)) return;
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync('../drover/dist/cli/main.js', link);
}

/** The npm that started us, or the one on the path. */
export function npm(args, options) {
  const own = process.env.npm_execpath;
  const command = own?.endsWith('.js') ? [process.execPath, own] : ['npm'];
  return spawnSync(command[0], [...command.slice(1), ...args], { cwd: root, stdio: 'inherit', ...options });
}

function readJson(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

export function fail(message) {
  console.error(`\n${message}`);
  process.exit(1);
}
