/** What the compiler says about a mistake, and where: at the wrong field, in one sentence. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const HEAD = `
import { createClient, defineJob, defineSchedule, defineWorkflow, gt } from '@drover/sdk';
import { enqueueManyWith, enqueueWith } from '@drover/sdk/postgres';
import { z } from 'zod';
const client = createClient();
const query = async () => {};
const mail = defineJob({ type: 'mail', payload: z.object({ to: z.string(), subject: z.string() }) });
const ping = defineJob<undefined>({ type: 'ping' });
const list = defineJob<undefined, { all: string[]; at?: string }>({ type: 'list' });
const flow = defineWorkflow({ name: 'flow', input: z.object({ to: z.string() }) }, ({ step }) => step('a', list).output.all);
`;

const NOT_A_STRING = "Type 'number' is not assignable to type 'string'.";
const MISSING =
  "Property 'subject' is missing in type '{ to: string; }' but required in type '{ to: string; subject: string; }'.";
const UNKNOWN =
  "Object literal may only specify known properties, but 'subjekt' does not exist in type '{ to: string; subject: string; }'. Did you mean to write 'subject'?";

/** The mistake is between the marks ‹ and ›, where the compiler must report it. */
const MISTAKES: [code: string, message: string][] = [
  [`client.enqueue(mail, { ‹to›: 5, subject: 's' });`, NOT_A_STRING],
  [`client.enqueue(mail, ‹{ to: 'a' }›);`, MISSING],
  [`client.enqueue(mail, { to: 'a', ‹subjekt›: 's' });`, UNKNOWN],
  [`client.‹enqueue›(mail);`, 'Expected 2-3 arguments, but got 1.'],
  [`client.enqueue(ping, ‹5›);`, "Argument of type '5' is not assignable to parameter of type 'undefined'."],
  [
    `client.enqueue(mail, { to: 'a', subject: 's' }, { ‹prioriti›: 1 });`,
    "Object literal may only specify known properties, but 'prioriti' does not exist in type 'JobOptionsInput'. Did you mean to write 'priority'?",
  ],
  [`client.enqueueMany(mail, [{ to: 'a', subject: 's' }, { ‹to›: 5, subject: 's' }]);`, NOT_A_STRING],
  [`client.enqueueMany(mail, [‹{ to: 'a' }›]);`, MISSING],
  [`client.enqueueMany([{ job: ping }, { job: mail, payload: { ‹to›: 5, subject: 's' } }]);`, NOT_A_STRING],
  [`client.enqueueMany([{ job: mail, payload: { to: 'a', ‹subjekt›: 's' } }]);`, UNKNOWN],
  [`client.enqueueMany([{ job: mail, ‹payload›: { to: 'a' } }]);`, MISSING],
  [`enqueueWith(query, mail, { ‹to›: 5, subject: 's' });`, NOT_A_STRING],
  [`enqueueWith(query, mail, ‹{ to: 'a' }›);`, MISSING],
  [`enqueueManyWith(query, mail, [{ ‹to›: 5, subject: 's' }]);`, NOT_A_STRING],
  [`enqueueManyWith(query, [{ job: mail, payload: { ‹to›: 5, subject: 's' } }]);`, NOT_A_STRING],
  [`defineSchedule({ name: 's', cron: '@daily', job: mail, payload: { ‹to›: 5, subject: 's' } });`, NOT_A_STRING],
  [`defineSchedule({ name: 's', cron: '@daily', job: mail, ‹payload›: { to: 'a' } });`, MISSING],
  [`defineJob({ type: 'a', run: ({ enqueue }) => enqueue(mail, { ‹to›: 5, subject: 's' }) });`, NOT_A_STRING],
  [
    `defineJob({ type: 'a', payload: z.object({ to: z.string() }), run: ({ payload }) => payload.‹too› });`,
    "Property 'too' does not exist on type '{ to: string; }'.",
  ],
  [
    `defineJob({ type: 'a', result: z.object({ sent: z.boolean() }), run: () => ({ ‹sent›: 1 }) });`,
    "Type 'number' is not assignable to type 'boolean'.",
  ],
  [
    `defineJob({ type: 'a', ‹timeout›: 'soon', run: () => 1 });`,
    `Type '"soon"' is not assignable to type 'Duration | undefined'.`,
  ],
  [`client.start(flow, { ‹to›: 5 });`, NOT_A_STRING],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => { step('a', mail, { ‹to›: 5, subject: 's' }); });`,
    "Type 'number' is not assignable to type 'Given<string>'.",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => { step('a', mail, ‹{ to: 'a' }›); });`,
    "Argument of type '{ to: string; }' is not assignable to parameter of type 'Given<{ to: string; subject: string; }>'.",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => { step('a', mail, { to: 'a', ‹subjekt›: 's' }); });`,
    "Object literal may only specify known properties, and 'subjekt' does not exist in type 'Given<{ to: string; subject: string; }>'.",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => step('a', list).output.‹al›);`,
    "Property 'al' does not exist on type 'Ref<{ all: string[]; at?: string | null; }, unknown>'.",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => { step('b', mail, { ‹to›: step('a', list).output.at, subject: 's' }); });`,
    "Type 'Ref<string | null, unknown>' is not assignable to type 'Given<string>'.",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => { step('b', ping, undefined, { ‹prioriti›: 5 }); });`,
    "Object literal may only specify known properties, but 'prioriti' does not exist in type 'StepOptions<JobDefinition<undefined, unknown, undefined, unknown>>'. Did you mean to write 'priority'?",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step }) => { step('b', ping, undefined, { if: gt(step('a', list).output.all.length, ‹'x'›) }); });`,
    "Argument of type 'string' is not assignable to parameter of type 'Operand<number>'.",
  ],
  [
    `defineWorkflow({ name: 'a' }, ({ step, map }) => { map('b', ‹step('a', list).output›, ping, () => undefined); });`,
    "Argument of type 'Ref<{ all: string[]; at?: string | null; }, unknown>' is not assignable to parameter of type 'Value<readonly unknown[]>'.",
  ],
];

/** Lines that the compiler must accept. */
const CORRECT = [
  `client.enqueueMany([{ job: ping }, { job: 'by-name', payload: 5 }, { job: mail, payload: { to: 'a', subject: 's' } }]);`,
  `client.enqueueMany(['a', 'b'].map((to) => ({ job: mail, payload: { to, subject: 's' } })));`,
  `client.enqueueMany([] as import('@drover/sdk').JobToAdd[]);`,
  `defineSchedule({ name: 's', cron: '@daily', job: ping });`,
  `defineSchedule({ name: 's', cron: '@daily', job: 'by-name' });`,
];

const lines = [...MISTAKES.map(([code]) => code.replace(/[‹›]/g, '')), ...CORRECT];
const FIRST_LINE = HEAD.split('\n').length;
let said: Map<number, { column: number; message: string }[]>;

beforeAll(() => {
  mkdirSync(join(ROOT, '.drover'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, '.drover/mistakes-'));
  try {
    writeFileSync(join(folder, 'mistakes.ts'), HEAD + lines.join('\n'));
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(CONFIG));
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    said = diagnosticsOf(
      spawnSync(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { encoding: 'utf8' }).stdout,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

const CONFIG = {
  extends: '../../tsconfig.base.json',
  compilerOptions: { noEmit: true, composite: false, incremental: false, lib: ['es2023', 'dom'], types: ['node'] },
  files: ['mistakes.ts'],
};

/** By line, from 0. Where overloads are involved, the message is the one about the last of them. */
function diagnosticsOf(output: string): typeof said {
  const found: typeof said = new Map();
  const pattern = /^\S*mistakes\.ts\((\d+),(\d+)\): error TS\d+: (?:No overload matches.*\n.*\n\s+)?(.*)$/gm;
  for (const [, line, column, message = ''] of output.matchAll(pattern)) {
    const index = Number(line) - FIRST_LINE;
    found.set(index, [...(found.get(index) ?? []), { column: Number(column), message }]);
  }
  return found;
}

it.each(MISTAKES.map(([code, message], index) => ({ code, message, index })))('$code', ({ code, message, index }) => {
  expect(said.get(index)).toEqual([{ column: code.indexOf('‹') + 1, message }]);
});

it('correct calls are accepted', () => {
  const complaints = CORRECT.map((code, index) => [code, said.get(MISTAKES.length + index)]);
  expect(complaints.filter(([, found]) => found !== undefined)).toEqual([]);
});
