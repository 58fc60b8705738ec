/**
 * The page of promises against the names of tests: what each says of the codes, and what does not fit. Pure, so that a test
 * can show that each complaint is made.
 */
import { posix } from 'node:path';

/** How many promises there are of each letter; the code of the third of D is D3. */
const PROMISES = { D: 12, P: 8, J: 10, V: 6, H: 7 };
export const CODES = Object.entries(PROMISES).flatMap(([letter, count]) =>
  Array.from({ length: count }, (_, index) => `${letter}${index + 1}`),
);
export const STATUSES = ['built', 'in part', 'not built'] as const;

const CODE = /\b[DPJVH]\d{1,2}\b/g;
const HEADING = /^### (\S+) /;
const FIELD = /^- (Status|Missing|Limits|Tests): (.*)$/;
const SUMMARY = /^- (Built|In part|Not built) \((\d+)\): (.*)\.$/;
const LINK = /\]\(([^)]+)\)/g;
/** The first argument of `test`, `describe` and `it` in all their forms, or of what `each` gives. */
const NAME = /(?:\b(?:describe|test|it)\w*(?:\.\w+)*(?:<[^()]*>)?|\))\(\s*(['"`])((?:\\.|(?!\1).)*)\1/gs;
const SHOWS = /^ {2}shows: \[([^\]]*)\]/gm;

/** Tests that run a server, and mostly a worker, as processes of their own on PostgreSQL. Rules judge such a run. */
const WHOLE_SYSTEM = [
  /^test\/scenarios\/[\w-]+\.test\.ts$/,
  /^test\/chaos\/rules\/(?!rules\.test)[\w-]+\.ts$/,
  /^packages\/server\/test\/faults\/[\w-]+\.test\.ts$/,
  /^packages\/server\/test\/cli\/processes\.test\.ts$/,
  /^packages\/server\/test\/schedules\/cluster\.test\.ts$/,
];

export type SourceFile = { path: string; text: string };

type Described = { code: string; status: string; isMissingSaid: boolean; tests: string[] };

export function isWholeSystem(path: string): boolean {
  return WHOLE_SYSTEM.some((pattern) => pattern.test(path));
}

/** The codes in the names of the tests of a file, or that the rule in it says it shows. */
export function codesIn({ path, text }: SourceFile): string[] {
  const names = Array.from(text.matchAll(path.endsWith('.test.ts') ? NAME : SHOWS), (match) => match[2] ?? match[1]);
  return [...new Set(names.flatMap((name) => name?.match(CODE) ?? []))];
}

/** What is wrong; nothing if the page, which lies at `pagePath`, and the files agree. */
export function complaints(page: string, pagePath: string, files: readonly SourceFile[]): string[] {
  const described = readDescribed(page, pagePath);
  const carried = files.map(({ path, text }) => ({ path, codes: codesIn({ path, text }) }));
  const whole = carried.filter(({ path }) => isWholeSystem(path));
  return [
    ...ofThePage(described),
    ...ofTheSummary(page, described),
    ...carried.flatMap(({ path, codes }) =>
      codes.filter((code) => !CODES.includes(code)).map((code) => `${path} names ${code}, which is no promise`),
    ),
    ...described.flatMap((one) => ofOne(one, whole)),
  ];
}

function ofThePage(described: readonly Described[]): string[] {
  const listed = described.map(({ code }) => code);
  return [
    ...CODES.filter((code) => !listed.includes(code)).map((code) => `the page lacks ${code}`),
    ...listed.filter((code) => !CODES.includes(code)).map((code) => `the page has ${code}, which is no promise`),
    ...listed.filter((code, index) => listed.indexOf(code) !== index).map((code) => `the page has ${code} twice`),
  ];
}

function ofTheSummary(page: string, described: readonly Described[]): string[] {
  return STATUSES.flatMap((status) => {
    const line = unwrapped(page).flatMap((text) => {
      const [, title, count, codes] = SUMMARY.exec(text) ?? [];
      return title?.toLowerCase() === status ? [`${count}: ${codes}`] : [];
    });
    const codes = described.filter((one) => one.status === status).map(({ code }) => code);
    const expected = `${codes.length}: ${codes.join(', ')}`;
    return line[0] === expected ? [] : [`the summary of what is ${status} must be "${expected}", and is "${line[0]}"`];
  });
}

function ofOne({ code, status, isMissingSaid, tests }: Described, whole: readonly { path: string; codes: string[] }[]) {
  if (!STATUSES.some((known) => known === status)) {
    return [`${code} has the status "${status}"; expected one of ${STATUSES.join(', ')}`];
  }
  const carriers = whole.filter(({ codes }) => codes.includes(code)).map(({ path }) => path);
  const wrong = [
    ...tests.filter((path) => !carriers.includes(path)).map((path) => `${code} lists ${path}, which does not show it`),
    ...carriers
      .filter((path) => !tests.includes(path))
      .map((path) => `${code} is shown by ${path} and does not list it`),
  ];
  if (isMissingSaid !== (status === 'in part')) wrong.push(`${code} is ${status}, and says otherwise by "Missing"`);
  if (status === 'not built' && tests.length > 0) wrong.push(`${code} is not built, and lists tests`);
  if (status !== 'not built' && carriers.length === 0)
    wrong.push(`${code} is ${status}, and no whole-system test shows it`);
  return wrong;
}

function readDescribed(page: string, pagePath: string): Described[] {
  const described: Described[] = [];
  for (const line of unwrapped(page)) {
    const code = HEADING.exec(line)?.[1];
    if (code !== undefined) described.push({ code, status: '', isMissingSaid: false, tests: [] });
    const current = described.at(-1);
    const [, field, value = ''] = FIELD.exec(line) ?? [];
    if (current === undefined || field === undefined) continue;
    if (field === 'Status') current.status = value;
    if (field === 'Missing') current.isMissingSaid = true;
    if (field === 'Tests') current.tests = linksIn(value, pagePath);
  }
  return described;
}

/** The lines, each item of a list as one. */
function unwrapped(page: string): string[] {
  return page.replace(/\n {2}(?=\S)/g, ' ').split('\n');
}

function linksIn(text: string, pagePath: string): string[] {
  return Array.from(text.matchAll(LINK), ([, link = '']) => posix.join(posix.dirname(pagePath), link));
}
