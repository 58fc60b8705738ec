/** How answers are written for people: their times, and the width of the terminal. */

export type TextFormat = {
  /** With the offset from UTC, as every option and argument for a time accepts it. */
  time: (time: string | null) => string | null;
  /** The width of the terminal. Undefined: there is none, and lines are not wrapped. */
  columns: number | undefined;
};

const CONTINUED_INDENT = 4;
/** Narrower terminals wrap by themselves. */
const MIN_COLUMNS = 40;

/** `2030-01-31T13:00:00+01:00` in the time zone of this machine, or `2030-01-31T12:00:00Z`. */
export function formatTime(time: string | null, utc: boolean): string | null {
  if (time === null) return null;
  const date = new Date(time);
  // a server of another kind may send anything
  if (Number.isNaN(date.getTime())) return time;
  const offset = utc ? 0 : -Math.round(date.getTimezoneOffset());
  const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -'.000Z'.length);
  return utc ? `${local}Z` : `${local}${offsetText(offset)}`;
}

function offsetText(minutes: number): string {
  const size = Math.abs(minutes);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** Wraps long lines between words. A continued line is indented deeper than its start. */
export function wrap(text: string, columns: number | undefined): string {
  if (columns === undefined || columns < MIN_COLUMNS) return text;
  return text
    .split('\n')
    .map((line) => wrapLine(line, columns))
    .join('\n');
}

function wrapLine(line: string, columns: number): string {
  const indent = ' '.repeat(((/^ */.exec(line)?.[0].length ?? 0) % (columns / 2)) + CONTINUED_INDENT);
  const lines: string[] = [];
  let rest = line;
  while (rest.length > columns) {
    const space = rest.lastIndexOf(' ', columns);
    // a word that fills the line is cut
    const end = rest.slice(0, space).trim() === '' ? columns : space;
    lines.push(rest.slice(0, end).trimEnd());
    rest = indent + rest.slice(end).trimStart();
  }
  return [...lines, rest].join('\n');
}
