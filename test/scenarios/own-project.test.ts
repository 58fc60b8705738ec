/**
 * docs/guides/your-own-project.md, done as a reader does it, in a folder with nothing but the packed packages. Only the
 * address and the database differ. Docker and Kubernetes are not run: what they name exists.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SETTING_KEYS, variableName } from '../../packages/server/src/config/settings.js';
import { codeBlocks, readPage } from '../docs/support/page.js';
import { createPageWalk, type PageWalk } from '../docs/support/walk-page.js';
import { freePort } from '../support/free-port.js';
import { type PackedPackages, unpackPackages } from '../support/packed-packages.js';
import { createStage } from '../support/stage.js';

const PAGE = 'docs/guides/your-own-project.md';
const TEST_MS = 120_000;

const stage = createStage();
const deployment = codeBlocks(readPage(PAGE))
  .filter(({ language }) => language === 'yaml' || language === 'dockerfile')
  .map(({ code }) => code)
  .join('\n');
let packed: PackedPackages;
let page: PageWalk;

beforeAll(async () => {
  packed = unpackPackages({ others: ['@types/node', 'esbuild', 'typescript'] });
  writeFileSync(join(packed.folder, 'package.json'), '{ "name": "own-project", "private": true }\n');
  const port = String(await freePort());
  const env = { DROVER_PORT: port, DROVER_URL: `http://127.0.0.1:${port}`, DROVER_DATABASE_URL: stage.databaseUrl };
  page = createPageWalk(PAGE, { cwd: packed.folder, env, here: (text) => text });
});
afterAll(async () => {
  await page?.stop();
  packed?.remove();
});

it(
  'the guide works as it is printed',
  async () => {
    await page.walk();
    expect([...page.terminals.keys()]).toEqual(['server', 'worker', 'bundle']);
  },
  TEST_MS,
);

it('its containers use settings that exist', () => {
  const variables = SETTING_KEYS.map(variableName);
  const used = deployment.match(/\bDROVER_[A-Z_]+/g) ?? [];
  expect(used.length).toBeGreaterThan(5);
  expect(used.filter((name) => !variables.includes(name))).toEqual([]);
});

it('its probes ask for paths that answer', async () => {
  const url = page.terminals
    .get('server')
    ?.output()
    .match(/http:\/\/\S+/)?.[0];
  const paths = Array.from(deployment.matchAll(/path: (\/api\/\w+)/g), ([, path]) => path);
  expect(paths).toEqual(['/api/ping', '/api/deep_ping']);
  for (const path of paths) expect((await fetch(`${url}${path}`)).status).toBe(200);
});
