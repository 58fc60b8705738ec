/** Programs that bundlers make of an application and the packed packages, run where there is no node_modules. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildSync } from 'esbuild';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runNode } from '../docs/support/commands.js';
import { type PackedPackages, unpackPackages } from '../support/packed-packages.js';
import { createStage } from '../support/stage.js';

const PROGRAM = `
import { createClient, defineJob } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';

const greet = defineJob({ type: 'greet', run: ({ payload }) => 'Hello, ' + payload });
const worker = createWorker({ jobs: [greet] });
const client = createClient();

async function main() {
  await worker.start();
  const job = await client.enqueue(greet, 'bundle');
  console.log(await job.result({ timeout: '30s' }));
  await client.close();
  await worker.stop();
}
main();
`;

/** The handler runs in a process that is named after its job. */
const ISOLATED = `
import { defineJob } from '@drover/sdk';

export const where = defineJob({
  type: 'where',
  isolation: 'process',
  module: ADDRESS,
  run: () => process.title,
});
`;
const ISOLATED_PROGRAM = PROGRAM.replace(/^const greet.*$/m, "import { where as greet } from './isolated.js';");

const REFUSAL =
  'createWorker: jobs.isolation: isolated handlers need the files of @drover/sdk, but this program is a bundle';

type Bundle = { entries: string[]; outdir: string; external?: string[] | undefined };

const BUNDLERS: Record<string, (bundle: Bundle) => unknown> = {
  'esbuild, as a module': (bundle) => withEsbuild(bundle, 'esm'),
  'esbuild, as CommonJS': (bundle) => withEsbuild(bundle, 'cjs'),
  rolldown: async ({ entries, outdir, external = [] }) => {
    const transform = { define: { ADDRESS: 'import.meta.url' } };
    const bundle = await rolldown({ input: entries, platform: 'node', external, transform });
    await bundle.write({ dir: outdir, format: 'esm', entryFileNames: '[name].mjs', chunkFileNames: '[name].mjs' });
    await bundle.close();
  },
};

/** `ws` is CommonJS and requires modules of Node, so a module needs a \`require\`. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

function withEsbuild({ entries, outdir, external = [] }: Bundle, format: 'esm' | 'cjs'): void {
  const { warnings } = buildSync({
    ...{ entryPoints: entries, outdir, external, format, bundle: true, platform: 'node', logLevel: 'silent' },
    ...(format === 'esm' ? { banner: { js: REQUIRE }, splitting: true } : {}),
    // CommonJS has no import.meta.
    define: { ADDRESS: format === 'esm' ? 'import.meta.url' : JSON.stringify(pathToFileURL(outdir).href) },
    outExtension: { '.js': format === 'esm' ? '.mjs' : '.cjs' },
  });
  expect(warnings).toEqual([]);
}

const stage = createStage();
let packed: PackedPackages;
let env: Record<string, string>;

beforeAll(async () => {
  packed = unpackPackages();
  writeFileSync(join(packed.folder, 'program.js'), PROGRAM);
  writeFileSync(join(packed.folder, 'isolated.js'), ISOLATED);
  writeFileSync(join(packed.folder, 'isolated-program.js'), ISOLATED_PROGRAM);
  const server = await stage.startServer();
  env = { DROVER_URL: server.url };
});
afterAll(() => packed.remove());

/** Bundles the entries of the packed folder, runs the first in an otherwise empty folder, and removes that. */
async function runBundled(bundler: string, { entries, external }: Pick<Bundle, 'entries' | 'external'>) {
  const outdir = mkdtempSync(join(tmpdir(), 'drover-bundle-'));
  try {
    if (external) symlinkSync(join(packed.folder, 'node_modules'), join(outdir, 'node_modules'));
    await BUNDLERS[bundler]?.({ entries: entries.map((entry) => join(packed.folder, entry)), outdir, external });
    const extension = bundler.includes('CommonJS') ? '.cjs' : '.mjs';
    return await runNode(join(outdir, basename(entries[0] ?? '', '.js') + extension), { cwd: outdir, env });
  } finally {
    rmSync(outdir, { recursive: true, force: true });
  }
}

it.each(Object.keys(BUNDLERS))('a worker in a bundle runs jobs: %s', async (bundler) => {
  const ended = await runBundled(bundler, { entries: ['program.js'] });
  expect(ended).toEqual({ code: 0, stdout: 'Hello, bundle\n', stderr: '' });
});

it.each(Object.keys(BUNDLERS))('an isolated job in a bundle with the SDK is refused, and why: %s', async (bundler) => {
  const ended = await runBundled(bundler, { entries: ['isolated-program.js'] });
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain(REFUSAL);
});

it.each(['esbuild, as a module', 'rolldown'])('with the SDK beside the bundle it runs: %s', async (bundler) => {
  const bundle = { entries: ['isolated-program.js', 'isolated.js'], external: ['@drover/sdk', '@drover/sdk/worker'] };
  expect(await runBundled(bundler, bundle)).toEqual({ code: 0, stdout: 'drover where\n', stderr: '' });
});
