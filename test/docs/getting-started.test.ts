/**
 * docs/getting-started.md, done as a reader does it: files are saved under the name their block gives
 * (`file=`), commands run in order in one folder, those with `terminal=` stay up, and a block of text after a
 * command is what it prints. Only the address differs, because 8420 may be in use on this machine.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { freePort } from '../support/free-port.js';
import { type Background, type RunOptions, runShell, startShell } from './support/commands.js';
import { codeBlocks, ROOT, readPage } from './support/page.js';

const PRINTED_ADDRESS = 'http://127.0.0.1:8420';
const TIMEOUT_MS = 180_000;

const page = readPage('docs/getting-started.md');
const blocks = codeBlocks(page);
const terminals: Background[] = [];
let database: TestDatabase;
let folder: string;
let address: string;
let options: RunOptions;

beforeAll(async () => {
  database = await createTestDatabase();
  const port = await freePort();
  address = `http://127.0.0.1:${port}`;
  // inside the repository, as the reader is, and ignored by git
  mkdirSync(join(ROOT, '.drover'), { recursive: true });
  folder = mkdtempSync(join(ROOT, '.drover/getting-started-'));
  const env = { DROVER_PORT: String(port), DROVER_URL: address, DROVER_DATABASE_URL: database.url };
  options = { cwd: folder, env };
});
afterAll(async () => {
  for (const terminal of terminals.reverse()) await terminal.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
  await database?.drop();
});

describe('docs/getting-started.md', () => {
  it(
    'works as it is printed',
    async () => {
      for (const [index, { language, attributes, code, line }] of blocks.entries()) {
        if (language === 'ts') writeFileSync(join(folder, String(attributes.file)), code);
        if (language !== 'sh') continue;
        const next = blocks[index + 1];
        const expected = next?.language === 'text' ? here(next.code).trim() : '';
        if (attributes.terminal) await inTerminal(here(code), expected);
        else await toItsEnd(here(code), expected, Number(attributes.exit ?? 0), line);
      }
      expect(terminals).toHaveLength(2);
    },
    TIMEOUT_MS,
  );
});

async function inTerminal(command: string, expected: string): Promise<void> {
  const terminal = startShell(command, options);
  terminals.push(terminal);
  await terminal.says(expected);
}

async function toItsEnd(command: string, expected: string, code: number, line: number): Promise<void> {
  const ended = await runShell(command, options);
  const where = `line ${line}: ${command}${ended.stdout}${ended.stderr}`;
  expect(ended.code, where).toBe(code);
  expect(ended.stdout, where).toContain(expected);
}

function here(text: string): string {
  return text.replaceAll(PRINTED_ADDRESS, address);
}
