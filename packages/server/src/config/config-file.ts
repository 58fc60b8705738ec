/**
 * Finds and reads the configuration file. It says where tokens are sent and which database is used, so it must be under
 * the control of the user who runs the command: files that others can change are refused, and code is loaded only if the
 * caller names the file, or each command would run what lies in the folder in which it is called.
 */
import { lstat, open, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { jsonProblem } from '../base/json-problem.js';
import { systemProblem } from '../base/system-problem.js';
import { ConfigError } from './config-error.js';
import { type Access, checkAccess, checkOwner, readableByOthers } from './file-access.js';
import { SETTING_KEYS, settingOf } from './settings.js';

const DATA_FILE = 'drover.config.json';
const CODE_FILE = 'drover.config.mjs';
const CODE_PATTERN = /\.m?js$/;

export type FoundFile = { file?: { path: string; content: unknown }; warnings: string[] };

/** `given`: the path that the caller named. Otherwise the data file of the folder is read, if there is one. */
export async function readConfigFile(given: string | undefined, cwd: string): Promise<FoundFile> {
  if (given !== undefined) return read(resolve(cwd, given));
  const [data, code] = await Promise.all([DATA_FILE, CODE_FILE].map((name) => exists(resolve(cwd, name))));
  if (data) await checkLink(resolve(cwd, DATA_FILE));
  const found = data ? await read(resolve(cwd, DATA_FILE)) : { warnings: [] };
  if (code) {
    found.warnings.push(`${CODE_FILE} is not read, because code is loaded only on request: use --config ${CODE_FILE}`);
  }
  return found;
}

/** A link of another user would choose among our own files. */
async function checkLink(path: string): Promise<void> {
  checkOwner(path, await lstat(path).catch((error: unknown) => unreadable(path, error)));
}

async function read(path: string): Promise<FoundFile> {
  if (path.endsWith('.json')) return readData(path);
  if (CODE_PATTERN.test(path)) return readCode(path);
  throw new ConfigError(`configuration file ${path}: expected a name that ends in .json or .mjs`);
}

async function readData(path: string): Promise<FoundFile> {
  const file = await open(path).catch((error: unknown) => unreadable(path, error));
  try {
    const access = await file.stat();
    checkAccess(path, access);
    const text = await file.readFile('utf8').catch((error: unknown) => unreadable(path, error));
    const content = parse(path, text);
    return { file: { path, content }, warnings: warningsOf(path, content, access) };
  } finally {
    await file.close();
  }
}

async function readCode(path: string): Promise<FoundFile> {
  const access = await stat(path).catch((error: unknown) => unreadable(path, error));
  checkAccess(path, access);
  const content = await importDefault(path);
  return { file: { path, content }, warnings: warningsOf(path, content, access) };
}

/** Warns of secrets that others can read. */
function warningsOf(path: string, content: unknown, access: Access): string[] {
  const isObject = typeof content === 'object' && content !== null;
  const secrets = SETTING_KEYS.filter((key) => settingOf(key).secret && isObject && Object.hasOwn(content, key));
  const remedy = secrets.length === 0 ? undefined : readableByOthers(path, access);
  if (remedy === undefined) return [];
  return [`configuration file ${path} contains secrets (${secrets.join(', ')}) and ${remedy}`];
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // the error of JSON.parse quotes the file, which may contain secrets
    throw new ConfigError(`configuration file ${path} is not valid JSON: ${jsonProblem(text)}`);
  }
}

async function importDefault(path: string): Promise<unknown> {
  let module: { default?: unknown };
  try {
    module = await import(pathToFileURL(path).href);
  } catch (error) {
    throw new ConfigError(`cannot load configuration file ${path}: ${messageOf(error)}`, { cause: error });
  }
  if (module.default !== undefined) return module.default;
  throw new ConfigError(`configuration file ${path} has no default export`);
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

function unreadable(path: string, error: unknown): never {
  throw new ConfigError(`cannot read configuration file ${path}: ${systemProblem(error)}`, { cause: error });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
