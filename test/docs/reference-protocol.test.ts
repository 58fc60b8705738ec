/** The reference pages of what the protocol package defines: nothing is missing, nothing is made up. */
import {
  CALLS_PATH,
  ERRORS,
  type ErrorCode,
  JOB_DEFAULT_NAMES,
  JOB_OPTION_NAMES,
  JOB_OPTIONS,
  JOB_STATES,
  type JobOptionName,
  type JobState,
  type JobVerb,
  jobSchema,
  LIMITS,
  MOVES,
  newJobSchema,
  newScheduleSchema,
  occurrenceSchema,
  outcomeSchema,
  ROUTES,
  type Route,
  type RouteName,
  SKIP_REASONS,
  STORED_OPTION_NAMES,
  STREAM_PATH,
  scheduleSchema,
  serverMessageSchema,
  workerMessageSchema,
} from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { codeBlocks, codeWords, headings, named, readPage, section, tableRows } from './support/page.js';

const sorted = (words: Iterable<string>) => [...words].sort();

describe('docs/reference/api.md', () => {
  const page = readPage('docs/reference/api.md');
  const routes = Object.keys(ROUTES) as RouteName[];
  const headingOf = ({ method, path }: Route) => `${method} ${path}`;

  it('has a section for every route and for no other', () => {
    const streams = [STREAM_PATH, CALLS_PATH].map((path) => `GET ${path}`);
    const listed = headings(page, 3).filter((heading) => !streams.includes(heading));
    expect(sorted(listed)).toEqual(sorted(routes.map((name) => headingOf(ROUTES[name]))));
    expect(headings(page, 3)).toEqual(expect.arrayContaining(streams));
  });

  it.each(routes)('names the roles and the query of %s', (name) => {
    const route: Route = ROUTES[name];
    const text = section(page, `### ${headingOf(route)}`);
    const roles = /Roles: (.*)\./.exec(text)?.[1] ?? '';
    if (route.roles === 'anyone') expect(roles).toBe('anyone');
    else expect(sorted(codeWords(roles))).toEqual(sorted(new Set([...route.roles, 'admin'])));
    if (route.query) expect(sorted(named(text))).toEqual(sorted(shapeOf(route.query)));
  });

  it('lists every field of a new job and of a job', () => {
    const fieldsOfNewJob = [...named(section(page, '## A new job')), ...JOB_OPTION_NAMES];
    expect(sorted(fieldsOfNewJob)).toEqual(sorted(shapeOf(newJobSchema)));
    const fieldsOfJob = [...named(section(page, '## A job')), ...STORED_OPTION_NAMES];
    expect(sorted(fieldsOfJob)).toEqual(sorted(shapeOf(jobSchema)));
  });

  it('lists every field of a new schedule, of a schedule and of an occurrence', () => {
    // what goes in is the inner part of a schema with a transform behind it
    const given = (newScheduleSchema as unknown as { in: object }).in;
    expect(sorted(named(section(page, '## A new schedule')))).toEqual(sorted(shapeOf(given)));
    expect(sorted(named(section(page, '## A schedule')))).toEqual(sorted(shapeOf(scheduleSchema)));
    expect(sorted(named(section(page, '## An occurrence')))).toEqual(sorted(shapeOf(occurrenceSchema)));
    const reasons = codeWords(section(page, '## An occurrence'));
    for (const reason of Object.keys(SKIP_REASONS)) expect(reasons).toContain(reason);
  });
});

describe('docs/reference/job-options.md', () => {
  const page = readPage('docs/reference/job-options.md');
  const listed = (heading: string) =>
    tableRows(section(page, heading)).map(([name = '', flag = '']) => [...codeWords(name), ...codeWords(flag)]);
  const known = (names: readonly JobOptionName[]) => names.map((name) => [name, JOB_OPTIONS[name].flag]);

  it('lists the options of a job type and those of one job, each with its flag', () => {
    const others = JOB_OPTION_NAMES.filter((name) => !JOB_OPTIONS[name].isDefault);
    expect(listed('## Of a job type')).toEqual(known(JOB_DEFAULT_NAMES));
    expect(listed('## Of one job')).toEqual(known(others));
  });
});

describe('docs/reference/errors.md', () => {
  const page = readPage('docs/reference/errors.md');

  it('lists every error with its status and whether it may be repeated', () => {
    const rows = tableRows(section(page, '## Answers of the server'));
    const listed = rows.map(([code = '', status, retryable]) => [
      codeWords(code)[0],
      Number(status),
      retryable === 'yes',
    ]);
    const known = (Object.keys(ERRORS) as ErrorCode[]).map((code) => [
      code,
      ERRORS[code].status,
      ERRORS[code].retryable,
    ]);
    expect(listed).toEqual(known);
  });

  it('names only codes of job errors that the code gives', () => {
    const sources = [
      'packages/sdk/src/worker/outcome.ts',
      'packages/sdk/src/worker/slots.ts',
      'packages/sdk/src/worker/reporter.ts',
      'packages/sdk/src/worker/isolation/process-error.ts',
      'packages/server/src/sessions/limit-outcome.ts',
      'packages/server/src/sessions/outcomes.ts',
      'packages/server/src/lifecycle/expire.ts',
      'packages/server/src/lifecycle/lose.ts',
      'packages/server/src/lifecycle/fail-by-hand.ts',
      'packages/server/src/new-jobs/check-jobs.ts',
    ].map(readPage);
    const codes = named(section(page, '## Errors of a job'));
    expect(codes.length).toBeGreaterThan(5);
    for (const code of codes)
      expect(
        sources.some((text) => text.includes(`'${code}'`)),
        code,
      ).toBe(true);
  });
});

describe('docs/reference/job-states.md', () => {
  const page = readPage('docs/reference/job-states.md');

  it('lists every state', () => {
    const listed = tableRows(section(page, '## States')).map(([state = '', finished]) => [
      codeWords(state)[0],
      finished,
    ]);
    const known = (Object.keys(JOB_STATES) as JobState[]).map((state) => [
      state,
      JOB_STATES[state].finished ? 'yes' : 'no',
    ]);
    expect(listed).toEqual(known);
  });

  it('lists every move with where it goes from and to', () => {
    const listed = tableRows(section(page, '## Moves')).map((row) => row.slice(0, 3).map(codeWords));
    const known = (Object.keys(MOVES) as JobVerb[]).map((verb) => [[verb], [...MOVES[verb].from], [...MOVES[verb].to]]);
    expect(listed).toEqual(known);
  });

  it('draws only moves that exist, and all that do not touch a reserved state', () => {
    const diagram = codeBlocks(section(page, '## Diagram'))[0]?.code ?? '';
    const drawn = Array.from(diagram.matchAll(/(\S+) --> (\S+): (\S+)/g), ([, from, to, verb]) =>
      [from === '[*]' ? 'new' : from, to, verb].join(' '),
    );
    const reserved = ['blocked'];
    const known = (Object.keys(MOVES) as JobVerb[]).flatMap((verb) =>
      MOVES[verb].from.flatMap((from) => MOVES[verb].to.map((to) => [from, to, verb] as const)),
    );
    const usual = known.filter(([from, to]) => !reserved.includes(from) && !reserved.includes(to));
    expect(sorted(drawn)).toEqual(sorted(usual.map((move) => move.join(' '))));
  });
});

describe('docs/reference/limits.md', () => {
  it('lists every limit with its value', () => {
    const rows = tableRows(section(readPage('docs/reference/limits.md'), '## By name'));
    const listed = rows.map(([name = '', value = '']) => [codeWords(name)[0], Number(value.replaceAll(',', ''))]);
    expect(listed).toEqual(Object.entries(LIMITS));
  });
});

describe('docs/reference/worker-stream.md', () => {
  const page = readPage('docs/reference/worker-stream.md');
  const messages = [
    { heading: '## From the worker', options: workerMessageSchema.options },
    { heading: '## From the server', options: serverMessageSchema.options },
  ];

  it('names the address', () => {
    expect(page).toContain(`\`${STREAM_PATH}\``);
  });

  it.each(messages)('has every message and every field: $heading', ({ heading, options }) => {
    const text = section(page, heading);
    const listed = headings(text, 3).map((name) => [name.split(' ')[0], sorted(named(section(text, `### ${name}`)))]);
    const known = options.map(({ shape }) => [[...shape.kind.values][0], sorted(Object.keys(shape))]);
    expect(listed).toEqual(known);
  });

  it('lists every outcome with its fields', () => {
    const rows = tableRows(section(page, '## Outcomes'));
    expect(rows.map(([kind = '']) => codeWords(kind)[0])).toEqual(
      outcomeSchema.options.map(({ shape }) => [...shape.kind.values][0]),
    );
    const shared = ['id', 'fence', 'kind', 'runMs'];
    const fields = outcomeSchema.options.map(({ shape }) => Object.keys(shape).filter((key) => !shared.includes(key)));
    expect(rows.map(([, further = '']) => codeWords(further))).toEqual(fields);
  });
});

/** The keys of an object schema. */
function shapeOf(schema: object): string[] {
  return Object.keys((schema as { shape: object }).shape);
}
