/** docs/getting-started.md, done as a reader does it. Only the address differs, because 8420 may be in use here. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { freePort } from '../support/free-port.js';
import { ROOT } from './support/page.js';
import { createPageWalk, type PageWalk } from './support/walk-page.js';

const PRINTED_ADDRESS = 'http://127.0.0.1:8420';
const TIMEOUT_MS = 180_000;

let database: TestDatabase;
let folder: string;
let page: PageWalk;

beforeAll(async () => {
  database = await createTestDatabase();
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  // inside the repository, as the reader is, and ignored by git
  mkdirSync(join(ROOT, '.drover'), { recursive: true });
  folder = mkdtempSync(join(ROOT, '.drover/getting-started-'));
  const env = { DROVER_PORT: String(port), DROVER_URL: address, DROVER_DATABASE_URL: database.url };
  const here = (text: string) => text.replaceAll(PRINTED_ADDRESS, address);
  page = createPageWalk('docs/getting-started.md', { cwd: folder, env, here });
});
afterAll(async () => {
  await page?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
  await database?.drop();
});

describe('docs/getting-started.md', () => {
  it(
    'works as it is printed',
    async () => {
      await page.walk();
      expect([...page.terminals.keys()]).toEqual(['drover', 'worker']);
    },
    TIMEOUT_MS,
  );
});
