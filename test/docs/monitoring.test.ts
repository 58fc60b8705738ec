/** The page of monitoring against what a server prints. */
import { describe, expect, it } from 'vitest';
import { EVENTS } from '../../packages/server/src/telemetry/log-events.js';
import { createMetrics } from '../../packages/server/src/telemetry/metrics.js';
import { codeWords, named, readPage, section, tableRows } from './support/page.js';

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

  it('lists every event and no other', () => {
    const events = section(readPage('docs/operations/monitoring.md'), '### Events');
    expect(
      named(events)
        .filter((name) => name.includes('.'))
        .sort(),
    ).toEqual(Object.keys(EVENTS).sort());
  });
});
