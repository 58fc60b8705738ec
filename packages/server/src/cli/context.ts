/** The environment of a command, and its settings. */
import type { Writable } from 'node:stream';
import { type Command as CliCommand, Option } from 'commander';
import { type ReadSettings, readSettings } from '../config/read-settings.js';
import { type Command, flagName, type SettingKey, settingOf, settingsOf, variableName } from '../config/settings.js';

export type Output = Writable & { isTTY?: boolean; columns?: number };

export type CliContext = {
  env: Record<string, string | undefined>;
  cwd: string;
  stdin: AsyncIterable<Buffer | string>;
  stdout: Output;
  stderr: Output;
};

/** Options of every command. */
export type GlobalOptions = { json?: boolean; utc?: boolean | undefined; config?: string };

/** Adds the flags of a command's settings. Values are checked later, together with the other sources. */
export function addSettingFlags(command: CliCommand, kind: Command): CliCommand {
  for (const key of settingsOf(kind)) {
    const setting = settingOf(key);
    if (setting.flag === false) continue;
    // a switch that is on by default needs a flag to turn it off
    const isSwitch = setting.default === false;
    command.addOption(new Option(isSwitch ? flagName(key) : `${flagName(key)} <value>`, describe(key)));
  }
  return command;
}

function describe(key: SettingKey): string {
  const { description, default: value } = settingOf(key);
  const shown = value === undefined || value === false ? '' : ` [${String(value)}]`;
  return `${description.replaceAll('`', '')}${shown} (${variableName(key)})`;
}

export async function settingsFor(command: CliCommand, kind: Command, context: CliContext): Promise<ReadSettings> {
  const options = command.optsWithGlobals<GlobalOptions & Partial<Record<SettingKey, unknown>>>();
  // Only flags of settings: `--retention` of `job add` is an option of the job and not the setting of a server.
  const flags = Object.fromEntries(settingsOf(kind).map((key) => [key, options[key]]));
  return readSettings({ flags, configPath: options.config, env: context.env, cwd: context.cwd });
}
