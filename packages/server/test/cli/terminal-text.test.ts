/**
 * Whatever a server answers: no command prints what acts on a terminal or cannot be seen, and JSON keeps its values.
 * The answers are made from the schemas of the routes, with such characters in every string.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ROUTES, type Route } from '@drover/protocol';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { definitionOf } from '../../../../test/support/walk-schema.js';
import type { CliContext } from '../../src/cli/context.js';
import { createDevView } from '../../src/cli/dev-view.js';
import { createLogger, prettyLine } from '../../src/cli/logger.js';
import { createProgram } from '../../src/cli/program.js';
import { safeJson, safeLine, safeLines } from '../../src/cli/terminal-text.js';
import { drover } from './run-cli.js';

/** What must never reach a terminal. */
const CORPUS = [
  '\x1b[2J\x1b]0;title\x07',
  '\x1b]52;c;Y29weQ==\x07',
  '\x9b31m\x90\x9d',
  '\b\b\r\v\f\x00\x7f\x85',
  '\u202e\u202a\u2066\u2069\u200e\u200f\u061c',
  '\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e',
  '\u2028\u2029\u{e0001}\u{e0041}\u115f\u3164\ufff9',
  '\ud800',
].join('x');
const NASTY = `line one ${CORPUS}\nline two ${CORPUS}`;
const UNSAFE = /(?!\n|\t|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** A value of a schema: nothing is left out, and every free string is the corpus. */
function nasty(schema: z.ZodType): unknown {
  const { type, shape = {}, element, innerType, options = [], in: first, valueType } = definitionOf(schema);
  const { values, entries } = schema.def as unknown as { values?: unknown[]; entries?: Record<string, unknown> };
  switch (type) {
    case 'object':
      return Object.fromEntries(Object.entries(shape).map(([key, value]) => [key, nasty(value)]));
    case 'array':
      return [nasty(element as z.ZodType)];
    case 'optional':
    case 'nullable':
    case 'default':
      return nasty(innerType as z.ZodType);
    case 'union':
      // a duration is a string of its own form, or a number
      return nasty(options.find((option) => definitionOf(option).type === 'number') ?? (options[0] as z.ZodType));
    case 'pipe':
      return nasty(first as z.ZodType);
    case 'record':
      return Object.fromEntries((keysOf(schema) ?? [NASTY]).map((key) => [key, nasty(valueType as z.ZodType)]));
    case 'enum':
      return Object.values(entries ?? {})[0];
    case 'literal':
      return values?.[0];
    case 'number':
      return 1;
    case 'boolean':
      return true;
    default:
      // a string, which may be a name, or a value of any kind
      return schema.safeParse(NASTY).success ? NASTY : 'name';
  }
}

function keysOf(schema: z.ZodType): string[] | undefined {
  const { keyType } = definitionOf(schema);
  const { entries } = (keyType?.def ?? {}) as unknown as { entries?: Record<string, string> };
  return entries && Object.values(entries);
}

const ID = '0193f2a0-5c1e-7d2b-9a55-0c6f1b2e3d4c';
const ARGUMENTS: Record<string, string> = { id: ID, name: 'nightly', type: 'mail', payload: '{}' };
const EXTRA_FLAGS: Record<string, string[]> = {
  'job add': ['--wait'],
  'schedule put': ['--every', '1h'],
  'schedule preview': ['--every', '1h'],
  'schedule backfill': ['--from', '2030-01-01T00:00:00Z', '--to', '2030-01-02T00:00:00Z'],
  'calendar put': ['--date', '2030-12-25'],
  'token create': ['--role', 'viewer'],
};

function commandLines(command: Command, path: string[] = []): string[][] {
  if (command.commands.length > 0) return command.commands.flatMap((one) => commandLines(one, [...path, one.name()]));
  const name = path.join(' ');
  // those that call a server and end
  if (name === 'worker' || !command.options.some(({ long }) => long === '--url')) return [];
  const given = command.registeredArguments.map((one) => ARGUMENTS[one.name()] ?? 'x');
  const isPreview = name === 'schedule preview';
  return [[...path, ...(isPreview ? [] : given), ...(EXTRA_FLAGS[name] ?? [])]];
}
const LINES = commandLines(createProgram({ stdout: process.stdout, stderr: process.stderr } as unknown as CliContext));

let peer: Server;
let url: string;
/** Undefined: it answers as the route says. */
let refusal: number | undefined;
beforeAll(async () => {
  const routes = Object.values(ROUTES).map((route: Route) => ({
    route,
    pattern: new RegExp(`^${route.path.replace(/:\w+/g, '[^/]+')}$`),
  }));
  routes.sort((a, b) => Number(a.route.path.includes(':')) - Number(b.route.path.includes(':')));
  peer = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] as string;
    const found = routes.find(({ route, pattern }) => route.method === request.method && pattern.test(path));
    const body =
      refusal === undefined ? found && nasty(found.route.answer) : { error: { code: 'internal', message: NASTY } };
    request.resume().on('end', () => {
      response.writeHead(refusal ?? 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body === undefined ? null : withOutcome(path, body)));
    });
  });
  await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(peer.address() as AddressInfo).port}`;
});
afterAll(() => {
  peer.closeAllConnections();
  peer.close();
});

/** So that a wait for a result ends. */
function withOutcome(path: string, body: unknown): unknown {
  if (path.endsWith('/bulk')) return { existed: [0] };
  return path.endsWith('/result') ? { ...(body as object), state: 'failed', finished: true } : body;
}

it('the corpus has what the functions must find', () => {
  expect(CORPUS).toMatch(UNSAFE);
  for (const text of [safeLine(NASTY), safeLines(NASTY), safeJson(JSON.stringify(NASTY))])
    expect(text).not.toMatch(UNSAFE);
  expect(safeLine(NASTY)).not.toContain('\n');
  expect(safeLines('a\x1b[31mb\u202ec\u{e0001}')).toBe('a\\u001b[31mb\\u202ec\\udb40\\udc01');
  expect(safeLines('Grüße 東京 ❤️ \t ok\r\n')).toBe('Grüße 東京 ❤️ \t ok\n');
  expect(safeLines(safeLines(NASTY))).toBe(safeLines(NASTY));
  expect(JSON.parse(safeJson(JSON.stringify({ [NASTY]: [NASTY] }, null, 2)))).toEqual({ [NASTY]: [NASTY] });
});

describe('every command that calls a server', () => {
  it.each(LINES.map((line) => [line.join(' '), line] as const))('%s prints it safely', async (_name, line) => {
    refusal = undefined;
    const text = await drover([...line, '--url', url]);
    expect(text.stdout + text.stderr).not.toMatch(UNSAFE);
    // 4: the job that was waited for has failed
    expect(text).toMatchObject(/add|wait/.test(line.join(' ')) ? { code: 4 } : { code: 0 });
    const json = await drover([...line, '--url', url, '--json']);
    expect(json.stdout + json.stderr).not.toMatch(UNSAFE);
    for (const printed of [json.stdout, json.stderr]) if (printed !== '') JSON.parse(printed);
    if (/^(job|schedule) show/.test(line.join(' '))) expect(Object.values(JSON.parse(json.stdout))).toContain(NASTY);
  });

  it('prints the error of a server safely, and as JSON with the same message', async () => {
    refusal = 400;
    const text = await drover(['queues', '--url', url]);
    expect(text.code).toBe(1);
    expect(text.stderr).not.toMatch(UNSAFE);
    const json = await drover(['queues', '--url', url, '--json']);
    expect(json.stderr).not.toMatch(UNSAFE);
    expect(JSON.parse(json.stderr)).toEqual({ error: { code: 'internal', message: NASTY } });
    refusal = undefined;
  });

  it('prints what the caller gave safely', async () => {
    for (const args of [[CORPUS], ['job', 'show', CORPUS], ['queues', `--${CORPUS}`], ['job', 'add', 'x', CORPUS]]) {
      const { code, stderr } = await drover([...args, '--url', url]);
      expect({ args, code }).toEqual({ args, code: 2 });
      expect(stderr).not.toMatch(UNSAFE);
    }
    const { stderr } = await drover(['queues'], { env: { DROVER_URL: CORPUS, [`DROVER_${CORPUS}`]: 'x' } });
    expect(stderr).not.toMatch(UNSAFE);
  });
});

describe('logs and the live view', () => {
  const entry = { level: 50, time: 0, msg: NASTY, field: NASTY, nested: { NASTY }, err: { stack: NASTY } };

  it('are safe', () => {
    expect(prettyLine(JSON.stringify(entry), true)).not.toMatch(UNSAFE);
    expect(prettyLine(CORPUS, true)).not.toMatch(UNSAFE);
    const written: string[] = [];
    const output = { isTTY: false, write: (text: string) => written.push(text) } as never;
    for (const logFormat of ['json', 'pretty'] as const) {
      createLogger({ logLevel: 'info', logFormat }, output, {}).error({ err: new Error(NASTY), field: NASTY }, NASTY);
    }
    createDevView(output).print(NASTY);
    expect(written).toHaveLength(3);
    for (const text of written) expect(text).not.toMatch(UNSAFE);
    expect(JSON.parse(written[0] as string)).toMatchObject({ msg: NASTY, field: NASTY });
  });
});
