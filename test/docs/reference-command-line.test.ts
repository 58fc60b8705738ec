/** The pages of command line and configuration against the commands and settings themselves. */
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import type { CliContext } from '../../packages/server/src/cli/context.js';
import { EXIT_CODES } from '../../packages/server/src/cli/exit-codes.js';
import { createProgram } from '../../packages/server/src/cli/program.js';
import { flagName, SETTING_KEYS, settingOf, variableName } from '../../packages/server/src/config/settings.js';
import { codeWords, headings, readPage, section, tableRows } from './support/page.js';

const sorted = (words: Iterable<string>) => [...words].sort();

describe('docs/reference/cli.md', () => {
  const page = readPage('docs/reference/cli.md');
  const program = createProgram({ stdout: process.stdout, stderr: process.stderr } as unknown as CliContext);
  const commands = leaves(program, 'drover');

  it('has a section for every command and for no other', () => {
    const listed = headings(page, 2).filter((heading) => heading.startsWith('drover '));
    expect(sorted(listed)).toEqual(sorted(commands.map(({ name }) => name)));
  });

  it.each(commands)('names every flag of $name and no other', ({ name, command }) => {
    const text = section(page, `## ${name}`);
    expect(sorted([...flagsIn(text), ...flagsOfLinks(text)])).toEqual(sorted(longFlags(command)));
  });

  it('names the global options', () => {
    const global = [...longFlags(program), '--help'];
    expect(sorted(flagsIn(tableText(section(page, '## Global options'))))).toEqual(sorted(global));
  });

  it('lists the exit codes', () => {
    const listed = tableRows(section(page, '## Exit codes')).map(([code, meaning]) => [Number(code), meaning]);
    expect(listed).toEqual(Object.values(EXIT_CODES).map(({ code, meaning }) => [code, meaning]));
  });
});

describe('docs/reference/configuration.md', () => {
  const page = readPage('docs/reference/configuration.md');
  const rows = new Map(tableRows(section(page, '## Settings')).map((row) => [codeWords(row[0] ?? '')[0], row]));

  it('lists every setting and no other', () => {
    expect(sorted([...rows.keys()].map(String))).toEqual(sorted(SETTING_KEYS));
  });

  it.each(SETTING_KEYS)('says of %s its variable, flag, default and commands', (key) => {
    const [, variable, flag, initial, commands] = rows.get(key) ?? [];
    const setting = settingOf(key);
    expect(variable).toBe(`\`${variableName(key)}\``);
    expect(flag).toBe(setting.flag === false ? 'none' : `\`${flagName(key)}\``);
    expect(initial).toBe(shown(setting.default));
    expect(commands).toBe(setting.commands.join(', '));
  });

  it('names no unknown variable', () => {
    const known = [...SETTING_KEYS.map(variableName), 'DROVER_CONFIG', 'DROVER_…', 'DROVER_TEST_…'];
    const named = codeWords(page).filter((word) => word.startsWith('DROVER_'));
    expect(named.filter((word) => !known.includes(word))).toEqual([]);
  });
});

function leaves(command: Command, name: string): { name: string; command: Command }[] {
  if (command.commands.length === 0) return [{ name, command }];
  const children = command.commands.flatMap((child) => leaves(child, `${name} ${child.name()}`));
  // `drover types` is a command, and has others below it
  const isCommand = command.parent !== null && command.options.length > 0;
  return isCommand ? [{ name, command }, ...children] : children;
}

function longFlags(command: Command): string[] {
  return command.options.map(({ long }) => String(long));
}

/** Each flag that stands in `code`, without its value. */
function flagsIn(text: string): Set<string> {
  return new Set(codeWords(text).flatMap((word) => /^--[a-z-]+/.exec(word) ?? []));
}

/** The flags of job options, which have a page of their own, if the section has a link to it. */
function flagsOfLinks(text: string): Set<string> {
  const options = readPage('docs/reference/job-options.md');
  if (text.includes('(job-options.md)')) return flagsIn(tableText(options, 1));
  if (!text.includes('(job-options.md#of-a-job-type)')) return new Set();
  return flagsIn(tableText(section(options, '## Of a job type'), 1));
}

function tableText(text: string, column = 0): string {
  return tableRows(text)
    .map((row) => row[column])
    .join('\n');
}

function shown(value: unknown): string {
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return 'none';
  return `\`${String(value)}\``;
}
