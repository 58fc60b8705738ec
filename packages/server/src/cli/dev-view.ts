/**
 * The output of `drover dev`. On a terminal it is a few lines that are redrawn, with all other output above them;
 * elsewhere it is one plain line every few seconds.
 */
import { ALL_STATES, type JobState, type Stats } from '@drover/protocol';
import type { Output } from './context.js';
import { formatSpan } from './output.js';
import { safeLines } from './terminal-text.js';

const PLAIN_INTERVAL_MS = 5000;
const DEFAULT_COLUMNS = 80;

const ESCAPE = '\x1b';
const COLOUR_PATTERN = new RegExp(`(${ESCAPE}\\[[0-9;]*m)`);
const CLEAR_BELOW = `${ESCAPE}[0J`;
const DIM = `${ESCAPE}[2m`;
const BOLD = `${ESCAPE}[1m`;
const COLOURS: Partial<Record<JobState, string>> = {
  running: `${ESCAPE}[36m`,
  succeeded: `${ESCAPE}[32m`,
  failed: `${ESCAPE}[31m`,
};
const RESET = `${ESCAPE}[0m`;

/** States that are shown only when there are such jobs. */
const SHOWN_IF_ANY: readonly JobState[] = ['blocked', 'unknown', 'cancelled'];

export type DevStatus = { stats: Stats; address: string; upMs: number; hint: string };

export type DevView = {
  /** Prints a permanent line. */
  print(line: string): void;
  update(status: DevStatus): void;
  /** Leaves the last state on the screen and stops drawing. */
  close(): void;
};

export function createDevView(output: Output): DevView {
  return output.isTTY ? createTerminalView(output) : createPlainView(output);
}

function createTerminalView(output: Output): DevView {
  let drawn: string[] = [];
  const erase = () => (drawn.length === 0 ? '' : `${ESCAPE}[${drawn.length}F${CLEAR_BELOW}`);
  const draw = (above: string, lines: string[]) => {
    // One write for both, so that the screen never shows a partial state.
    output.write(`${erase()}${above}${lines.map((line) => `${line}\n`).join('')}`);
    drawn = lines;
  };
  return {
    print: (line) => draw(`${safeLines(line)}\n`, drawn),
    update: (status) =>
      draw(
        '',
        statusLines(status).map((line) => fit(line, output.columns ?? DEFAULT_COLUMNS)),
      ),
    close: () => {
      drawn = [];
    },
  };
}

function createPlainView(output: Output): DevView {
  let lastAt = Number.NEGATIVE_INFINITY;
  return {
    print: (line) => void output.write(`${safeLines(line)}\n`),
    update: (status) => {
      if (performance.now() - lastAt < PLAIN_INTERVAL_MS) return;
      lastAt = performance.now();
      output.write(`${plainLine(status)}\n`);
    },
    close: () => {},
  };
}

function statusLines({ stats, address, upMs, hint }: DevStatus): string[] {
  const counts = shownStates(stats).map((state) => {
    const text = `${state} ${BOLD}${stats.counts[state] ?? 0}${RESET}`;
    return COLOURS[state] ? `${COLOURS[state]}${text}` : text;
  });
  return [
    '',
    `  ${BOLD}${address}${RESET}   ${DIM}up ${formatSpan(upMs)}${RESET}`,
    `  ${counts.join('   ')}`,
    `  ${rateText(stats)}   ${capacityText(stats)}`,
    '',
    `  ${DIM}${hint}${RESET}`,
    `  ${DIM}Ctrl-C stops everything; the data stays.${RESET}`,
  ];
}

/** One line without control characters, for logs and pipes. */
function plainLine({ stats, address }: DevStatus): string {
  const counts = shownStates(stats).map((state) => `${state} ${stats.counts[state] ?? 0}`);
  return `${counts.join(', ')} | ${rateText(stats)} | ${capacityText(stats)} | ${address}`;
}

function shownStates(stats: Stats): JobState[] {
  return ALL_STATES.filter((state) => !SHOWN_IF_ANY.includes(state) || (stats.counts[state] ?? 0) > 0);
}

function rateText({ perSecond }: Stats): string {
  return `${perSecond.finished.toFixed(1)} jobs/s`;
}

function capacityText({ capacity: { workers, total, free } }: Stats): string {
  return `${workers} ${workers === 1 ? 'worker' : 'workers'} (${free} of ${total} slots free)`;
}

/** Cut at the width of the terminal, because a wrapped line would be counted as one and be overwritten. */
function fit(line: string, columns: number): string {
  let width = 0;
  let result = '';
  // Colour codes have no width.
  for (const part of line.split(COLOUR_PATTERN)) {
    if (part.startsWith(ESCAPE)) result += part;
    else {
      result += part.slice(0, Math.max(0, columns - 1 - width));
      width += part.length;
    }
  }
  return result;
}
