/**
 * Settings come from flags, else from the environment, else from a file, else from their defaults. Invalid settings are
 * refused, and so is an unknown setting in a file. An unknown environment variable is only reported, because other
 * programs may have set it.
 */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nearest } from '@drover/protocol';
import { ConfigError } from './config-error.js';
import { readConfigFile } from './config-file.js';
import { readableByOthers } from './file-access.js';
import { isServiceLink } from './service-links.js';
import { flagName, SETTING_KEYS, type SettingKey, type Settings, settingOf, variableName } from './settings.js';

const PREFIX = 'DROVER_';
const CONFIG_VARIABLE = 'DROVER_CONFIG';
/** Only tests read such variables; a server on a developer's machine must start despite them. */
const TEST_PREFIX = 'DROVER_TEST_';
const SHOWN_VALUE_LENGTH = 80;

export type Sources = {
  /** By key, from the command line. `undefined` counts as not given. */
  flags: Partial<Record<SettingKey, unknown>>;
  env: Record<string, string | undefined>;
  file?: { path: string; content: unknown };
};

/** The settings, and what the operator should know of their sources. */
export type ReadSettings = {
  settings: Settings;
  /** About the configuration file and private keys. */
  warnings: string[];
  ignored: {
    /** Addresses of Kubernetes Services. */
    serviceLinks: string[];
    /** No setting has this name. */
    unknown: { name: string; suggestion: string | undefined }[];
  };
};

/** Finds the configuration file, if there is one, and reads all sources. */
export async function readSettings(options: {
  flags: Sources['flags'];
  configPath?: string | undefined;
  env: Sources['env'];
  cwd: string;
}): Promise<ReadSettings> {
  const { flags, env, cwd } = options;
  const { file, warnings } = await readConfigFile(options.configPath ?? (env[CONFIG_VARIABLE] || undefined), cwd);
  const resolved = resolveSettings(file ? { flags, env, file } : { flags, env });
  return { ...resolved, warnings: [...warnings, ...(await privateFileWarnings(resolved.settings, cwd))] };
}

/** Concerns private keys. A file that is missing is reported where it is read. */
async function privateFileWarnings(settings: Settings, cwd: string): Promise<string[]> {
  const keys = SETTING_KEYS.filter((key) => settingOf(key).isPrivateFile && settings[key] !== undefined);
  const warnings = keys.map(async (key) => {
    const path = resolve(cwd, String(settings[key]));
    const access = await stat(path).catch(() => undefined);
    const remedy = access && readableByOthers(path, access);
    return remedy === undefined ? [] : [`${key}: ${path} ${remedy}`];
  });
  return (await Promise.all(warnings)).flat();
}

/** Combines the sources. Pure. */
export function resolveSettings(sources: Sources): Omit<ReadSettings, 'warnings'> {
  const fromFile = knownKeys(sources.file);
  const { env, ignored } = sortVariables(sources.env);
  const values = SETTING_KEYS.map((key): [SettingKey, unknown] => {
    const variable = variableName(key);
    if (sources.flags[key] !== undefined) return [key, parse(key, sources.flags[key], `flag ${flagName(key)}`)];
    // Scripts and compose files may pass on an unset variable as an empty one.
    if (env[variable]) return [key, parse(key, env[variable], `environment variable ${variable}`)];
    if (fromFile[key] !== undefined) return [key, parse(key, fromFile[key], `file ${sources.file?.path}`)];
    return [key, defaultOf(key)];
  });
  return { settings: Object.fromEntries(values) as Settings, ignored };
}

function defaultOf(key: SettingKey): unknown {
  const { default: value } = settingOf(key);
  return value === undefined ? undefined : parse(key, value, 'default');
}

function parse(key: SettingKey, given: unknown, source: string): unknown {
  const { kind, secret } = settingOf(key);
  const value = kind.parse(given);
  if (value !== undefined) return value;
  const shown = secret
    ? kind.problem?.(given)
    : `got ${(JSON.stringify(given) ?? String(given)).slice(0, SHOWN_VALUE_LENGTH)}`;
  throw new ConfigError(`${key}: expected ${kind.expected}${shown ? `, ${shown}` : ''} (from ${source})`);
}

function knownKeys(file: Sources['file']): Partial<Record<SettingKey, unknown>> {
  if (!file) return {};
  if (typeof file.content !== 'object' || file.content === null || Array.isArray(file.content)) {
    throw new ConfigError(`configuration file ${file.path}: expected an object of settings`);
  }
  for (const key of Object.keys(file.content)) {
    if (!SETTING_KEYS.some((known) => known === key)) {
      throw new ConfigError(`configuration file ${file.path}: unknown setting "${key}"${suggest(key, SETTING_KEYS)}`);
    }
  }
  return file.content;
}

/** Separates the variables that are settings from those to ignore. */
function sortVariables(given: Sources['env']): { env: Sources['env']; ignored: ReadSettings['ignored'] } {
  const known = [CONFIG_VARIABLE, ...SETTING_KEYS.map(variableName)];
  const env: Sources['env'] = {};
  const ignored: ReadSettings['ignored'] = { serviceLinks: [], unknown: [] };
  for (const [name, value = ''] of Object.entries(given)) {
    if (!name.startsWith(PREFIX) || name.startsWith(TEST_PREFIX)) continue;
    if (isServiceLink(name, value)) ignored.serviceLinks.push(name);
    else if (known.includes(name)) env[name] = value;
    else ignored.unknown.push({ name, suggestion: nearestVariable(name, known) });
  }
  return { env, ignored };
}

/** Compared without the prefix, which makes any two names similar. */
function nearestVariable(name: string, known: readonly string[]): string | undefined {
  const words = known.map((variable) => variable.slice(PREFIX.length));
  const near = nearest(name.slice(PREFIX.length), words);
  return near && `${PREFIX}${near}`;
}

function suggest(word: string, known: readonly string[]): string {
  const near = nearest(word, known);
  return near ? `; did you mean "${near}"?` : '';
}
