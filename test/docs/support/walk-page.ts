/**
 * Does what a page tells its reader: blocks with `file=` are saved under that name, commands run in order in one folder,
 * those with `terminal=` stay up, and a block of text after a command is what it prints. `exit=` is the expected exit
 * code, and a block with `run=no` is left out.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { type Background, type RunOptions, runShell, startShell } from './commands.js';
import { type CodeBlock, codeBlocks, readPage } from './page.js';

export type PageWalk = {
  /** What was started last in each terminal. */
  readonly terminals: ReadonlyMap<string, Background>;
  /** The whole page, from top to bottom. */
  walk(): Promise<void>;
  /** Starts again what the page starts in a terminal, and waits for what it prints. */
  start(terminal: string): Promise<void>;
  /** Stops everything that was started, the last first. */
  stop(): Promise<void>;
};

/** `here` is the text as it is on this machine, where the printed addresses may be in use. */
export function createPageWalk(path: string, { here, ...options }: RunOptions & { here: (text: string) => string }) {
  const blocks = codeBlocks(readPage(path));
  const terminals = new Map<string, Background>();
  const started: Background[] = [];

  const walk: PageWalk = {
    terminals,
    async walk() {
      for (const block of blocks) await follow(block);
    },
    async start(name) {
      const block = blocks.find(({ attributes }) => attributes.terminal === name);
      if (block === undefined) throw new Error(`${path} starts nothing in a terminal "${name}"`);
      const terminal = startShell(here(block.code), options);
      started.push(terminal);
      terminals.set(name, terminal);
      await terminal.says(printedBy(block));
    },
    async stop() {
      for (const terminal of started.reverse()) await terminal.stop();
    },
  };
  return walk;

  async function follow(block: CodeBlock): Promise<void> {
    const { language, attributes, code } = block;
    if (attributes.file) save(attributes.file, here(code));
    else if (language === 'sh' && attributes.terminal) await walk.start(attributes.terminal);
    else if (language === 'sh' && attributes.run !== 'no') await runToItsEnd(block);
  }

  async function runToItsEnd(block: CodeBlock): Promise<void> {
    const ended = await runShell(here(block.code), options);
    const where = `${path}:${block.line}: ${block.code}${ended.stdout}${ended.stderr}`;
    expect(ended.code, where).toBe(Number(block.attributes.exit ?? 0));
    expect(ended.stdout, where).toContain(printedBy(block));
  }

  function printedBy(block: CodeBlock): string {
    const next = blocks[blocks.indexOf(block) + 1];
    return next?.language === 'text' ? here(next.code).trim() : '';
  }

  function save(name: string, text: string): void {
    const file = join(options.cwd, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}
