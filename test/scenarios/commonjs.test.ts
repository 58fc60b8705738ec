/** Applications in CommonJS, with the packed packages: programs, handlers, and what TypeScript says of them. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runNode, startShell } from '../docs/support/commands.js';
import { ROOT } from '../docs/support/page.js';
import { type PackedPackages, unpackPackages } from '../support/packed-packages.js';
import { createStage } from '../support/stage.js';

/** Each runs in a process that is named after its job. */
const HANDLERS = `
const { defineJob } = require('@drover/sdk');
const run = () => process.title;
const spread = { second: defineJob({ type: 'commonjs.second', isolation: 'process', module: __filename, run }) };
module.exports = { first: defineJob({ type: 'commonjs.first', isolation: 'process', module: __filename, run }), ...spread };
`;

const PROGRAM = `
const { createClient } = require('@drover/sdk');
const { createWorker } = require('@drover/sdk/worker');
const { enqueueWith } = require('@drover/sdk/postgres');
const { ERRORS } = require('@drover/protocol');
const { createServer } = require('drover');
const { first } = require('./handlers.cjs');

async function main() {
  const worker = createWorker({ jobs: [first] });
  await worker.start();
  const client = createClient();
  const job = await client.enqueue(first);
  console.log(await job.result({ timeout: '30s' }), typeof enqueueWith, typeof ERRORS, typeof createServer);
  await client.close();
  await worker.stop();
}
main();
`;

const TYPED = `
import { createClient, defineJob, DroverError } from '@drover/sdk';
import worker = require('@drover/sdk/worker');
import { enqueueWith } from '@drover/sdk/postgres';
import { ERRORS } from '@drover/protocol';
import { createServer } from 'drover';

const length = defineJob<{ text: string }, number>({ type: 'length', run: ({ payload }) => payload.text.length });
async function main(): Promise<string> {
  const job = await createClient().enqueue(length, { text: 'four' });
  worker.createWorker({ jobs: [length] });
  return await job.result();
}
export = { main, enqueueWith, ERRORS, createServer, DroverError };
`;

const stage = createStage();
let packed: PackedPackages;
let env: Record<string, string>;

beforeAll(async () => {
  packed = unpackPackages({ others: ['@types/node', '@types/pg'] });
  writeFileSync(join(packed.folder, 'package.json'), '{ "name": "app", "private": true }\n');
  writeFileSync(join(packed.folder, 'handlers.cjs'), HANDLERS);
  writeFileSync(join(packed.folder, 'program.js'), PROGRAM);
  writeFileSync(join(packed.folder, 'typed.ts'), TYPED);
  const server = await stage.startServer();
  env = { DROVER_URL: server.url };
});
afterAll(() => packed.remove());

it('a program in CommonJS requires the packages and runs an isolated job', async () => {
  const ended = await runNode(join(packed.folder, 'program.js'), { cwd: packed.folder, env });
  expect(ended).toEqual({ code: 0, stdout: 'drover commonjs.first function object function\n', stderr: '' });
});

it('drover worker runs the handlers of a module in CommonJS', async () => {
  const worker = startShell(`exec node ${packed.cli} worker handlers.cjs`, { cwd: packed.folder, env });
  try {
    await worker.says('worker is ready');
    const job = await stage.client(env.DROVER_URL ?? '').enqueue('commonjs.second');
    expect(await job.result({ timeout: '20s' })).toBe('drover commonjs.second');
  } finally {
    await worker.stop();
  }
});

it.each(['node16', 'nodenext --skipLibCheck'])('TypeScript knows the types in CommonJS: %s', (module) => {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const flags = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node', '--module', ...module.split(' ')];
  const { stdout } = spawnSync(process.execPath, [tsc, ...flags, 'typed.ts'], { cwd: packed.folder, encoding: 'utf8' });
  // the one mistake of the program: the result is a number
  expect(stdout).toBe("typed.ts(12,3): error TS2322: Type 'number' is not assignable to type 'string'.\n");
});
