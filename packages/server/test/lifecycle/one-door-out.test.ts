/** Every ending goes through `finish`, and every move of a job is one of the table: read from the sources and the database. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FINISHED_STATES, type JobState, MOVES } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

const SRC = fileURLToPath(new URL('../../src', import.meta.url));
const THE_DOOR = 'lifecycle/finish.ts';

/** SQL that ends a job. */
const ENDINGS = {
  'deletes unfinished jobs': /delete\s+from\s+(only\s+)?drover\.job\b/gi,
  'fills the history': /insert\s+into\s+drover\.job_history\b/gi,
  'counts what has ended': /(insert\s+into|update)\s+drover\.rollup\b/gi,
};

const sources = readdirSync(SRC, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => {
    const path = join(entry.parentPath, entry.name);
    return { name: relative(SRC, path), text: readFileSync(path, 'utf8') };
  });

/** The files in which it occurs, once for each time. */
function filesWith(pattern: RegExp): string[] {
  return sources.flatMap(({ name, text }) => Array.from(text.matchAll(pattern), () => name));
}

describe('one door out', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  test.each(Object.entries(ENDINGS))('only one statement text %s', (_what, pattern) => {
    expect(filesWith(pattern)).toEqual([THE_DOOR]);
  });

  test('no SQL function ends jobs', async () => {
    const { rows } = await database.pool.query<{ name: string; body: string }>(
      `select proname as name, prosrc as body from pg_proc where pronamespace = 'drover'::regnamespace`,
    );
    expect(rows.length).toBeGreaterThan(5);
    const withText = (pattern: RegExp) => rows.filter(({ body }) => body.search(pattern) >= 0).map(({ name }) => name);
    // it takes back its own copy of a job that has finished already
    expect(withText(ENDINGS['deletes unfinished jobs'])).toEqual(['insert_jobs']);
    expect(withText(ENDINGS['fills the history'])).toEqual([]);
    expect(withText(ENDINGS['counts what has ended'])).toEqual([]);
  });

  test('every verb that ends jobs has an ending, and no other', () => {
    const ending = Object.entries(MOVES)
      .filter(([, { to }]) => to.some((state: JobState) => FINISHED_STATES.includes(state)))
      .map(([verb]) => verb);
    const named = sources
      .filter(({ text }) => text.includes("from './finish.js'"))
      .flatMap(({ text }) => Array.from(text.matchAll(/verb: '(\w+)',\s+(?:using|where):/g), ([, verb]) => verb));
    expect([...new Set(named)].sort()).toEqual(ending.sort());
  });
});

describe('the table of moves', () => {
  test('gives every state that a statement sets', () => {
    const set = sources.flatMap(({ name, text }) =>
      Array.from(text.matchAll(/\bset state = (.*)/g), ([, value = '']) => ({ name, value })),
    );
    expect(set.length).toBeGreaterThan(8);
    expect(set.filter(({ value }) => !/^\$\{stateAfter\(/.test(value))).toEqual([]);
  });

  test('is not spelled by hand in the guards of a verb', () => {
    const verbs = sources.filter(({ text }) => text.includes("from './states.js'"));
    expect(verbs.length).toBeGreaterThan(10);
    const byHand =
      /state\w*\s*(=|<>|<|>|in|is)[^$`]*'(blocked|scheduled|ready|running|unknown|succeeded|failed|cancelled)'/;
    expect(verbs.filter(({ text }) => byHand.test(text)).map(({ name }) => name)).toEqual([]);
  });
});
