/** The program of the README as it is printed, and every program in examples/, against a real server. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { createStage } from '../support/stage.js';
import { runTypeScript } from './support/commands.js';
import { codeBlocks, ROOT, readPage } from './support/page.js';

const MAX_README_LINES = 25;

/** What each example prints. A worker logs each failed attempt, and what handlers log, on the other stream. */
const EXAMPLES: Record<string, string[]> = {
  'children.ts': ['resized: a.png at 200, b.png at 200, c.png at 200'],
  'quickstart.ts': ['Hello, world'],
  'retries.ts': ['report of alice on attempt 3', 'failed for good: the account is closed'],
  'transactional-drizzle.ts': ['confirmed order-1', 'rolled back: job_not_found'],
  'transactional-pg.ts': ['confirmed order-1', 'rolled back: job_not_found'],
  'transactional-postgres-js.ts': ['confirmed order-1', 'rolled back: job_not_found'],
  'workflow.ts': ['47 letters by report, praise: null'],
};

const FAILED_ATTEMPTS: Record<string, number> = { 'children.ts': 1, 'retries.ts': 3 };

const stage = createStage();
let env: Record<string, string>;

beforeAll(async () => {
  const server = await stage.startServer();
  env = { DROVER_URL: server.url, DROVER_DATABASE_URL: stage.databaseUrl };
});

describe('the program of the README', () => {
  const programs = codeBlocks(readPage('README.md')).filter(({ language }) => language === 'ts');
  const program = programs[0]?.code ?? '';

  it('is one, short, and the same as examples/quickstart.ts', () => {
    expect(programs).toHaveLength(1);
    expect(program.trim().split('\n').length).toBeLessThanOrEqual(MAX_README_LINES);
    const example = readFileSync(join(ROOT, 'examples/quickstart.ts'), 'utf8');
    expect(program).toBe(example.replace(/^\/\*\*.*?\*\/\n/s, ''));
  });

  it('runs as it is printed', async () => {
    mkdirSync(join(ROOT, '.drover'), { recursive: true });
    const folder = mkdtempSync(join(ROOT, '.drover/readme-'));
    try {
      writeFileSync(join(folder, 'hello.ts'), program);
      const ended = await runTypeScript(join(folder, 'hello.ts'), { cwd: ROOT, env });
      expect(ended).toEqual({ code: 0, stdout: 'Hello, world\n', stderr: '' });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the examples', () => {
  it('are all known here', () => {
    const files = readdirSync(join(ROOT, 'examples')).filter((file) => file.endsWith('.ts'));
    expect(files.sort()).toEqual(Object.keys(EXAMPLES).sort());
  });

  it.concurrent.each(Object.entries(EXAMPLES))('%s runs and prints what it should', async (file, lines) => {
    const ended = await runTypeScript(join(ROOT, 'examples', file), { cwd: ROOT, env });
    expect(ended).toMatchObject({ code: 0, stdout: `${lines.join('\n')}\n` });
    const logged = ended.stderr.split('\n').filter((line) => line !== '');
    const problems = logged.map((line) => JSON.parse(line)).filter(({ level }) => level !== 'info');
    expect(problems.map(({ event }) => event)).toEqual(Array(FAILED_ATTEMPTS[file] ?? 0).fill('attempt.failed'));
  });
});
