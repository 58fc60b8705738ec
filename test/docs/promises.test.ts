/** docs/promises.md against the tests: each promise that is built is shown by a test of the whole system, and linked. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { RULES } from '../chaos/rules/index.js';
import { ROOT, readPage } from './support/page.js';
import { CODES, codesIn, complaints, isWholeSystem, type SourceFile } from './support/promises.js';

const PAGE = 'docs/promises.md';
const SKIPPED = new Set(['node_modules', 'dist']);
/** What starts the processes of a test. */
const PROCESSES = /from '[./\w-]+\/(stage|processes|run-process)\.js'/;
const RULE_FILES = 'test/chaos/rules/';

function sourceFiles(folder: string): SourceFile[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : sourceFiles(path);
    const name = relative(ROOT, path).split(sep).join('/');
    return name.endsWith('.test.ts') || isWholeSystem(name) ? [{ path: name, text: readFileSync(path, 'utf8') }] : [];
  });
}

const files = ['packages', 'test'].flatMap((folder) => sourceFiles(join(ROOT, folder)));

describe(PAGE, () => {
  it('and the tests agree', () => {
    expect(complaints(readPage(PAGE), PAGE, files)).toEqual([]);
  });

  it('counts a test as one of the whole system only if it starts processes', () => {
    const whole = files.filter(({ path }) => isWholeSystem(path) && !path.startsWith(RULE_FILES));
    expect(whole.length).toBeGreaterThan(15);
    expect(whole.filter(({ text }) => !PROCESSES.test(text)).map(({ path }) => path)).toEqual([]);
  });

  it('counts only rules that a run of the fault suite is held to', () => {
    const ofFiles = files.filter(({ path }) => path.startsWith(RULE_FILES) && isWholeSystem(path)).flatMap(codesIn);
    expect(ofFiles.sort()).toEqual(RULES.flatMap(({ shows = [] }) => shows).sort());
  });
});

describe('a code is found', () => {
  test.each([
    ["test('D1: a sentence', () => {})", ['D1']],
    ["describe('two at once (P2, P3)', () => {})", ['P2', 'P3']],
    ["it.each([1, 2])('J1 with %i', { timeout: 5 }, () => {})", ['J1']],
    ["test.each<[string, number]>([\n  ['a', 1],\n])(\n  'V1 %s',\n  () => {})", ['V1']],
    ["describeJumps('the clock (J7, H5)', () => {})", ['J7', 'H5']],
    ['it("it isn\'t lost: H1", () => {})', ['H1']],
    ['test(`D2 of a template`, () => {})', ['D2']],
    ["expect(codes).toEqual(['D1']); const code = 'D9';", []],
    ["test('a p99 of P100, ID3', () => {})", []],
  ])('in %s', (text, codes) => {
    expect(codesIn({ path: 'test/scenarios/made.test.ts', text })).toEqual(codes);
  });

  test('in a rule, where it says what it shows', () => {
    const text = "export const rule: Rule = {\n  code: 'S1',\n  promise: 'D1',\n  shows: ['V5', 'H1'],\n};";
    expect(codesIn({ path: 'test/chaos/rules/s1.ts', text })).toEqual(['V5', 'H1']);
  });
});

describe('it is noticed that', () => {
  const SCENARIO = 'test/scenarios/made.test.ts';
  const UNIT = 'packages/server/test/made.test.ts';
  const link = (path: string) => `[made](../${path})`;

  type Entry = { code: string; status: string; missing?: string; tests?: string };
  type Made = { entries: Entry[]; files: SourceFile[]; page(): string };

  /** A page on which everything is built but D12, and one scenario that shows all of it. */
  function made(): Made {
    const entries: Entry[] = CODES.map((code) =>
      code === 'D12' ? { code, status: 'not built' } : { code, status: 'built', tests: link(SCENARIO) },
    );
    const names = CODES.filter((code) => code !== 'D12').map((code) => `test('${code}: it works', () => {});`);
    return {
      entries,
      files: [
        { path: SCENARIO, text: names.join('\n') },
        { path: UNIT, text: "test('D1: in detail', () => {});" },
      ],
      page: () => `${summaryOf(entries)}\n${entries.map(textOf).join('\n')}`,
    };
  }

  function summaryOf(entries: readonly Entry[]): string {
    const titles = { built: 'Built', 'in part': 'In part', 'not built': 'Not built' };
    const lines = Object.entries(titles).map(([status, title]) => {
      const codes = entries.filter((entry) => entry.status === status).map(({ code }) => code);
      return `- ${title} (${codes.length}): ${codes.join(', ')}.`;
    });
    return lines.join('\n');
  }

  function textOf({ code, status, missing, tests }: Entry): string {
    const fields = [`- Status: ${status}`];
    if (missing !== undefined) fields.push(`- Missing: ${missing}`);
    if (tests !== undefined) fields.push(`- Tests:\n  ${tests}`);
    return `### ${code} A promise\n\nIt holds.\n\n${fields.join('\n')}\n`;
  }

  const entry = ({ entries }: Made, code: string): Entry => entries.find((one) => one.code === code) as Entry;
  const named = (name: string): SourceFile => ({ path: SCENARIO, text: `test('${name}', () => {});` });
  const found = (one: Made) => complaints(one.page(), PAGE, one.files);

  test('nothing is wrong, if so', () => expect(found(made())).toEqual([]));

  const PLANTS: [what: string, plant: (made: Made) => unknown, complaint: string][] = [
    ['a promise is missing', (one) => one.entries.splice(4, 1), 'the page lacks D5'],
    [
      'the page has an unknown code',
      (one) => one.entries.push({ code: 'D13', status: 'not built' }),
      'the page has D13',
    ],
    ['a promise is there twice', (one) => one.entries.push({ ...entry(one, 'H7') }), 'the page has H7 twice'],
    [
      'a status is not one of three',
      (one) => Object.assign(entry(one, 'D5'), { status: 'nearly' }),
      'D5 has the status "nearly"',
    ],
    ['a test names an unknown code', (one) => one.files.push(named('P9: never promised')), 'names P9'],
    [
      'a detailed test names an unknown code',
      (one) => one.files.push({ ...named('V7: never promised'), path: UNIT }),
      `${UNIT} names V7`,
    ],
    [
      'what is built is shown by no test of the whole system',
      (one) => {
        entry(one, 'D1').tests = '';
        one.files[0] = { path: SCENARIO, text: (one.files[0]?.text ?? '').replace("'D1:", "':") };
      },
      'D1 is built, and no whole-system test shows it',
    ],
    [
      'what is built in part is shown by no test',
      (one) => {
        Object.assign(entry(one, 'D1'), { status: 'in part', missing: 'the rest', tests: '' });
        one.files[0] = { path: SCENARIO, text: (one.files[0]?.text ?? '').replace("'D1:", "':") };
      },
      'D1 is in part, and no whole-system test shows it',
    ],
    [
      'a link leads to a test without the code',
      (one) => {
        one.files.push({ ...named('D2: alone'), path: 'test/scenarios/other.test.ts' });
        entry(one, 'D1').tests = `${link(SCENARIO)}, ${link('test/scenarios/other.test.ts')}`;
        entry(one, 'D2').tests = entry(one, 'D1').tests ?? '';
      },
      'D1 lists test/scenarios/other.test.ts, which does not show it',
    ],
    [
      'a link leads to a test of a part',
      (one) => Object.assign(entry(one, 'D1'), { tests: `${link(SCENARIO)}, ${link(UNIT)}` }),
      `D1 lists ${UNIT}`,
    ],
    [
      'a test of the whole system is not linked',
      (one) => one.files.push({ ...named('D3: once more'), path: 'test/scenarios/other.test.ts' }),
      'D3 is shown by test/scenarios/other.test.ts and does not list it',
    ],
    [
      'a rule is not linked',
      (one) => one.files.push({ path: 'test/chaos/rules/s1.ts', text: "  shows: ['D3'],\n" }),
      'D3 is shown by test/chaos/rules/s1.ts and does not list it',
    ],
    [
      'what is not built lists tests',
      (one) => {
        entry(one, 'D12').tests = link(SCENARIO);
        one.files.push(named('D12: already'));
      },
      'D12 is not built, and lists tests',
    ],
    [
      'what is in part does not say what is missing',
      (one) => Object.assign(entry(one, 'D1'), { status: 'in part' }),
      'D1 is in part',
    ],
    [
      'what is built lacks something',
      (one) => Object.assign(entry(one, 'D1'), { missing: 'a lot' }),
      'D1 is built, and says otherwise',
    ],
  ];

  test.each(PLANTS)('%s', (_, plant, complaint) => {
    const one = made();
    plant(one);
    expect(found(one)).toEqual(expect.arrayContaining([expect.stringContaining(complaint)]));
  });

  test('the summary is wrong', () => {
    const one = made();
    const page = one.page().replace('- Not built (1): D12.', '- Not built (0): .');
    expect(complaints(page, PAGE, one.files)).toEqual([
      'the summary of what is not built must be "1: D12", and is "0: "',
    ]);
  });
});
