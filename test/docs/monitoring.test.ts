/** The page of monitoring against what a server and a worker print. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EVENTS } from '../../packages/server/src/telemetry/log-events.js';
import { createMetrics } from '../../packages/server/src/telemetry/metrics.js';
import { codeWords, named, ROOT, readPage, section, tableRows } from './support/page.js';

const page = section(readPage('docs/operations/monitoring.md'), '## Metrics');
const printed = await createMetrics().text({
  ...{ workers: 0, heldJobs: 0, pendingJobs: 0, sinceBeatMs: undefined, certificateLeftMs: undefined },
});
const types = new Map(Array.from(printed.matchAll(/^# TYPE (\S+) (\S+)$/gm), ([, name, type]) => [name, type]));
const own = [...types].filter(([name]) => name?.startsWith('drover_'));

describe('docs/operations/monitoring.md', () => {
  it('lists every metric of Drover with its type, and no other', () => {
    const listed = tableRows(page).flatMap(([name = '', type]) =>
      /^`drover_\w+`$/.test(name) ? [[codeWords(name)[0], type]] : [],
    );
    expect(listed.sort()).toEqual(own.sort());
  });

  it('names every label and every value of it', () => {
    const labels = Array.from(printed.matchAll(/^(drover_\w+)\{(\w+)="([^"]+)"\}/gm), ([, ...parts]) => parts);
    const meanings = new Map(tableRows(page).map(([name = '', , meaning = '']) => [codeWords(name)[0], meaning]));
    for (const [name = '', label, value] of labels) {
      if (name.endsWith('_bucket')) continue;
      const words = codeWords(meanings.get(name) ?? '');
      expect(words, name).toContain(label);
      if (label !== 'version') expect(words, name).toContain(value);
    }
  });

  it('lists every metric of the process that is printed here', () => {
    const listed = codeWords(page).filter((word) => /^(process|nodejs)_\w+$/.test(word));
    const others = [...types.keys()].filter((name) => !name?.startsWith('drover_'));
    expect(others.filter((name) => !listed.includes(name as string))).toEqual([]);
    expect(others.length).toBeGreaterThan(20);
  });

  it('warns by metrics that exist', () => {
    const names = codeWords(page).flatMap((word) => word.match(/\b(drover|nodejs|process)_\w+/g) ?? []);
    const known = [...types.keys()] as string[];
    for (const name of names) {
      if (name.startsWith('drover_')) expect(known).toContain(name);
    }
  });

  const logs = section(readPage('docs/operations/monitoring.md'), '## Logs');

  it('lists the fields of every event that an operator may act on, and no other', () => {
    expect(eventsIn(section(logs, '### Events'))).toEqual(Object.keys(EVENTS).sort());
  });

  it.each([
    ['### Lines of servers and commands', 'packages/server/src', Object.keys(EVENTS)],
    ['### Lines of a worker', 'packages/sdk/src', []],
  ])('%s lists every other event of %s and no other', (heading, folder, listedElsewhere) => {
    const written = sources(folder).flatMap(({ text }) => eventNames(text));
    const others = new Set(written.filter((name) => !listedElsewhere.includes(name)));
    expect(eventsIn(section(logs, heading))).toEqual([...others].sort());
  });
});

describe('each log line', () => {
  it.each(['packages/server/src', 'packages/sdk/src'])('of %s has an event', (folder) => {
    const without = sources(folder).flatMap(({ path, text }) =>
      logCalls(text)
        .filter((call) => !/\bevent\b/.test(withFields(call, text)) && !PASSED_ON.test(call))
        .map((call) => `${path}: ${call}`),
    );
    expect(without).toEqual([]);
  });
});

/** Lines of a handler or of another thread, which has named the event. */
const PASSED_ON = /\b(?:jobFields|message\.fields|event\.fields)\b/;

function eventsIn(text: string): string[] {
  return named(text)
    .filter((name) => name.includes('.'))
    .sort();
}

function sources(folder: string): { path: string; text: string }[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('thread-code.ts'))
    .map((path) => ({ path, text: readFileSync(join(ROOT, folder, path), 'utf8') }));
}

const EVENT_NAME = "'([a-z]+\\.[a-z-]+)'";
const NAMED_EVENT = new RegExp(`\\bevent(?::| =)[^',;]*${EVENT_NAME}(?: : ${EVENT_NAME})?`, 'g');

function eventNames(text: string): string[] {
  return Array.from(text.matchAll(NAMED_EVENT), ([, ...names]) => names.filter((name) => name !== undefined)).flat();
}

/** Each call of a logger, up to the end of its first argument or line. */
function logCalls(text: string): string[] {
  return text.match(/logger(?:\??\.(?:debug|info|warn|error)|\[[\w.]+\])\(\s*[^)]+/g) ?? [];
}

/** The call with what its `fields` are in this file. */
function withFields(call: string, text: string): string {
  return /\(\s*fields,/.test(call) ? `${call} ${text.match(/const fields = \{[^}]+/g)?.join(' ')}` : call;
}
