import { type JobWithAttempts, type Stats, timeSchema } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { createDevView } from '../../src/cli/dev-view.js';
import { jobText } from '../../src/cli/job-text.js';
import { prettyLine } from '../../src/cli/logger.js';
import { formatFields, formatSpan, formatTable } from '../../src/cli/output.js';
import { formatTime, wrap } from '../../src/cli/text-format.js';

const ESCAPE = '\x1b';
const flow = { succeeded: 0, failed: 0, cancelled: 0, retried: 0, waitMs: null, runMs: null };
const stats: Stats = {
  counts: { ready: 1, running: 2, succeeded: 30 },
  countedAt: '2030-01-01T00:00:00.000Z',
  capacity: { total: 10, free: 8, workers: 1, servers: 1 },
  perSecond: { finished: 1.25 },
  lastMinute: flow,
  lastHour: flow,
  lastDay: flow,
};
const status = { stats, address: 'http://127.0.0.1:8420', upMs: 65_000, hint: 'Try it' };

const screen = (isTTY: boolean, columns = 80) => {
  const written: string[] = [];
  const output = { isTTY, columns, write: (text: string) => written.push(text) };
  return { written, view: createDevView(output as never) };
};

describe('a table', () => {
  it('aligns its columns and shows what is missing as a dash', () => {
    const table = formatTable(
      ['name', 'jobs'],
      [
        ['a', 5],
        ['long name', 100],
        [null, undefined],
      ],
    );
    expect(table.split('\n')).toEqual(['NAME       JOBS', 'a             5', 'long name   100', '-             -']);
  });

  it('does not let the text of a job steer the terminal or break the line', () => {
    expect(formatTable(['x'], [['a\x1b[31m\nb']])).toBe('X\na\\u001b[31m b');
    expect(formatTable(['x'], [['y'.repeat(100)]]).split('\n')[1]).toHaveLength(60);
  });
});

it('fields without a value are left out', () => {
  expect(
    formatFields([
      ['id', 'x'],
      ['worker', null],
      ['queue', 'y'],
    ]),
  ).toBe('id     x\nqueue  y');
});

it.each([
  [0.4, '0 ms'],
  [999, '999 ms'],
  [1500, '1.5 s'],
  [65_000, '1 m 5 s'],
  [7_260_000, '2 h 1 m'],
])('%d ms are told as %s', (ms, text) => {
  expect(formatSpan(ms)).toBe(text);
});

it('a log line for people has the message first and the stack of an error below', () => {
  const entry = { level: 40, time: 0, pid: 1, hostname: 'x', msg: 'lost', id: 7, err: { stack: 'Error: x\n  at y' } };
  expect(prettyLine(JSON.stringify(entry), true)).toBe('1970-01-01T00:00:00Z WARN lost id=7\nError: x\n  at y');
  for (const line of ['no json', 'null', '7', '{"time":"today"}', '{"time":1e300}']) {
    expect(prettyLine(`${line}\n`, true)).toBe(line);
  }
});

describe('the view of drover dev', () => {
  it('is plain lines, not too many, where there is no terminal', () => {
    const { view, written } = screen(false);
    view.print('hello');
    view.update(status);
    view.update(status);
    expect(written).toEqual([
      'hello\n',
      'scheduled 0, ready 1, running 2, succeeded 30, failed 0 | 1.3 jobs/s | 1 worker (8 of 10 slots free) | http://127.0.0.1:8420\n',
    ]);
  });

  it('is drawn over itself on a terminal, with other lines above it', () => {
    const { view, written } = screen(true);
    view.update(status);
    const height = written[0]?.split('\n').length ?? 0;
    view.print('a warning');
    expect(written[1]).toMatch(new RegExp(`^${ESCAPE}\\[${height - 1}F${ESCAPE}\\[0Ja warning\n`));
    view.close();
    view.print('bye');
    expect(written[2]).toBe('bye\n');
  });

  it('never writes a line that a narrow terminal would wrap', () => {
    const { view, written } = screen(true, 20);
    view.update(status);
    const colours = new RegExp(`${ESCAPE}\\[[0-9;]*[mFJ]`, 'g');
    for (const line of (written[0] ?? '').replace(colours, '').split('\n')) expect(line.length).toBeLessThan(20);
  });
});

describe('a time', () => {
  it('carries its zone', () => {
    const zone = process.env.TZ;
    try {
      for (const [name, time, text] of [
        ['Europe/Berlin', '2030-01-31T12:00:00.000Z', '2030-01-31T13:00:00+01:00'],
        ['America/New_York', '2030-07-31T02:00:00.999Z', '2030-07-30T22:00:00-04:00'],
        ['Asia/Kolkata', '2030-01-31T20:00:00.000Z', '2030-02-01T01:30:00+05:30'],
        ['UTC', '2030-01-31T12:00:00.000Z', '2030-01-31T12:00:00+00:00'],
        ['Africa/Monrovia', '1971-01-01T12:00:00.000Z', expect.stringMatching(/^1971-01-01T11:1\d:\d\d-00:4\d$/)],
      ] as const) {
        process.env.TZ = name;
        const shown = formatTime(time, false);
        expect(shown).toEqual(text);
        expect(Math.abs(Date.parse(shown as string) - Date.parse(time))).toBeLessThan(1000);
        expect(timeSchema.safeParse(shown).success).toBe(true);
      }
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
    expect(formatTime('2030-01-31T12:00:00.000Z', true)).toBe('2030-01-31T12:00:00Z');
    expect(timeSchema.safeParse(formatTime('2030-01-31T12:00:00.000Z', true)).success).toBe(true);
    expect(formatTime(null, true)).toBeNull();
    expect(formatTime('tomorrow', true)).toBe('tomorrow');
  });
});

describe('a long line', () => {
  it('is wrapped between words, with the rest indented', () => {
    const words = Array.from({ length: 20 }, (_, index) => `word${index}`).join(' ');
    const lines = wrap(`  ${words}`, 40).split('\n');
    expect(lines.every((line) => line.length <= 40)).toBe(true);
    expect(lines[0]).toMatch(/^ {2}word0 /);
    expect(lines[1]).toMatch(/^ {6}word/);
    expect(lines.join(' ').replace(/\s+/g, ' ').trim()).toBe(words);
  });

  it('of one word is cut, and none is lost', () => {
    const text = 'x'.repeat(1000);
    expect(wrap(text, 40).replace(/\s/g, '')).toBe(text);
    expect(wrap(`${' '.repeat(100)}${text}`, 40).replace(/\s/g, '')).toBe(text);
  });

  it('stays as it is where there is no terminal', () => {
    expect(wrap('x '.repeat(100), undefined)).toBe('x '.repeat(100));
  });
});

describe('a job', () => {
  const format = { time: (time: string | null) => formatTime(time, true), columns: undefined };
  const job = {
    ...{
      id: '018f0000-0000-7000-8000-000000000000',
      type: 'mail',
      queue: 'default',
      state: 'failed',
      priority: 0,
      attempt: 1,
    },
    ...{
      maxAttempts: 1,
      worker: null,
      tags: [],
      createdAt: '2030-01-01T00:00:00.000Z',
      runAt: '2030-01-01T00:00:00.000Z',
    },
    ...{ startedAt: null, finishedAt: null, expiresAt: null, cancelRequestedAt: null, timeout: null, retention: null },
    ...{ parentId: null, occurrence: null, payload: null, progress: null, result: null, attempts: [] },
  };

  it('shows its back-off, what is done when its worker is lost, and the stack of its error', () => {
    const error = { name: 'Error', message: 'no', stack: `Error: no\n    at send${ESCAPE}[2J (mail.ts:1:2)` };
    const text = jobText(
      {
        ...job,
        onLost: 'hold',
        backoff: { kind: 'fixed', delay: 5 },
        error,
      } as unknown as JobWithAttempts,
      format,
    );
    expect(text).toMatch(/back-off\s+{"kind":"fixed","delay":5}/);
    expect(text).toMatch(/when lost\s+hold/);
    expect(text).toMatch(/\n\nlast error:\nError: no\n {4}at send/);
  });

  it('that will be tried again shows the whole error of its last attempt', () => {
    const message = `first line\n${'long '.repeat(100)}end`;
    const attempt = { attempt: 1, outcome: 'failed', startedAt: null, finishedAt: null, worker: 'w' };
    const attempts = [
      { ...attempt, error: { name: 'Error', message: 'an earlier one' } },
      { ...attempt, error: { name: 'BankError', message, stack: 'at bank' } },
      { ...attempt, outcome: 'released', error: null },
    ];
    const text = jobText({ ...job, state: 'scheduled', attempts, error: null } as unknown as JobWithAttempts, format);
    expect(text).toContain(`\n\nlast error:\nBankError: ${message}\nat bank`);
    expect(text).toMatch(/\n +1 +released +- +- +w +-\n/);
  });

  it('that has none of it shows none of it', () => {
    const text = jobText({ ...job, onLost: 'rerun', backoff: null, error: null } as unknown as JobWithAttempts, format);
    expect(text).not.toMatch(/back-off\s+\S*{|hold|Error/);
  });
});
