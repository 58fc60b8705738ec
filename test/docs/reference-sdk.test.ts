/** The page of the SDK against its entry points, the dependencies page against the manifests. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { JOB_DEFAULT_NAMES } from '@drover/protocol';
import { createClient, defineJob } from '@drover/sdk';
import * as postgres from '@drover/sdk/postgres';
import * as worker from '@drover/sdk/worker';
import { describe, expect, it } from 'vitest';
import { named, ROOT, readPage, section } from './support/page.js';

const sorted = (words: Iterable<string>) => [...words].sort();

const ENTRY_POINTS = [
  { name: '@drover/sdk', source: 'packages/sdk/src/index.ts' },
  { name: '@drover/sdk/worker', source: 'packages/sdk/src/worker/index.ts' },
  { name: '@drover/sdk/postgres', source: 'packages/sdk/src/postgres/index.ts' },
];

describe('docs/reference/sdk.md', () => {
  const page = readPage('docs/reference/sdk.md');

  it.each(ENTRY_POINTS)('lists every name that $name exports and no other', ({ name, source }) => {
    const own = section(page, `## ${name}`).split('\n### ')[0] ?? '';
    expect(sorted(named(own))).toEqual(sorted(exportedNames(readPage(source))));
  });

  it('lists every method of a client and no other', async () => {
    const client = createClient();
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(client)).filter((name) => name !== 'constructor');
    await client.close();
    expect(sorted(named(section(page, '### The client')))).toEqual(sorted(methods));
  });

  it('lists every member of a job handle and no other', async () => {
    const client = createClient();
    const handle = client.job('id');
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(handle)).filter((name) => name !== 'constructor');
    await client.close();
    expect(sorted(named(section(page, '### A job handle')))).toEqual(sorted([...methods, ...Object.keys(handle)]));
  });

  it('lists every option of defineJob and no other', () => {
    const listed = [...named(section(page, '### The options of a job')), ...JOB_DEFAULT_NAMES];
    const known = /expected one of (.*)$/.exec(messageOf(() => defineJob({ type: 'a', '?': 1 } as never)))?.[1];
    expect(sorted(listed)).toEqual(sorted(known?.split(', ') ?? []));
  });

  it('lists every method of client.schedules and no other', async () => {
    const client = createClient();
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(client.schedules)).filter(
      (name) => name !== 'constructor',
    );
    await client.close();
    expect(sorted(named(section(page, '### Schedules')))).toEqual(sorted(methods));
  });

  it('lists every method of client.workflows and every member of a run handle, and no other', async () => {
    const client = createClient();
    const methodsOf = (of: object) =>
      Object.getOwnPropertyNames(Object.getPrototypeOf(of)).filter((name) => name !== 'constructor');
    const run = client.run('id');
    await client.close();
    expect(sorted(named(section(page, '### Workflows and runs')))).toEqual(sorted(methodsOf(client.workflows)));
    expect(sorted(named(section(page, '### A run handle')))).toEqual(sorted([...methodsOf(run), ...Object.keys(run)]));
  });

  it('lists every method of client.tokens and no other', async () => {
    const client = createClient();
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(client.tokens));
    await client.close();
    expect(sorted(named(section(page, '### Tokens')))).toEqual(
      sorted(methods.filter((name) => name !== 'constructor')),
    );
  });

  it('lists every option of a worker and no other', () => {
    const listed = named(section(page, '### Worker options'));
    // the entry point refuses what it does not know and names what it does
    expect(() => worker.createWorker({ jobs: [], '?': 1 } as never)).toThrow(`expected one of ${listed.join(', ')}`);
  });

  it('lists every member of a handler’s context and no other', () => {
    const source = readPage('packages/sdk/src/job-definition.ts');
    const type = /^export type JobContext<.*?^};/ms.exec(source)?.[0] ?? '';
    const members = Array.from(type.matchAll(/^ {2}readonly (\w+):/gm), ([, name]) => name as string);
    expect(sorted(named(section(page, '### The context of a handler')))).toEqual(sorted(members));
  });

  it('names what can be imported', () => {
    expect(sorted(Object.keys(postgres))).toEqual(['enqueueManyWith', 'enqueueWith']);
  });
});

describe('docs/decisions/0100-dependencies.md', () => {
  const page = readPage('docs/decisions/0100-dependencies.md');
  const manifest = (folder: string) =>
    JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as Record<string, Record<string, string>>;
  const foreign = (names: object = {}) => Object.keys(names).filter((name) => !name.startsWith('@drover/'));

  it('has a line for every dependency of the packages', () => {
    const used = ['packages/protocol', 'packages/sdk', 'packages/server'].flatMap((folder) => {
      const { dependencies, peerDependencies } = manifest(folder);
      return foreign({ ...dependencies, ...peerDependencies });
    });
    expect(sorted(named(section(page, '## Of the packages')))).toEqual(sorted(new Set(used)));
  });

  it('has a line for every dependency of development and of the examples', () => {
    const elsewhere = named(section(page, '## Of the packages'));
    const development = foreign(manifest('.').devDependencies).filter((name) => !elsewhere.includes(name));
    expect(sorted(named(section(page, '## For development')))).toEqual(sorted(development));
    const examples = foreign(manifest('examples').dependencies).filter((name) => !elsewhere.includes(name));
    expect(sorted(named(section(page, '## For the examples')))).toEqual(sorted(examples));
  });
});

/** Names of `export { a, type B, C as D }`, `export type { … }` and of exported declarations. */
function exportedNames(source: string): Set<string> {
  const lists = Array.from(source.matchAll(/^export (?:type )?\{([^}]*)\}/gm), ([, list]) => list as string);
  const listed = lists.flatMap((list) => list.split(',')).map((item) => item.trim().split(' ').at(-1) ?? '');
  const declared = Array.from(
    source.matchAll(/^export (?:async )?(?:type|function|class|const) (\w+)/gm),
    ([, name]) => name as string,
  );
  return new Set([...listed, ...declared].filter((name) => name !== ''));
}

function messageOf(call: () => unknown): string {
  try {
    call();
    return '';
  } catch (error) {
    return String(error);
  }
}
