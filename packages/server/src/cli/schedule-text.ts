/** Schedules, occurrences and previews as text for the terminal. */
import { type Calendar, formatDuration, type Occurrence, type Preview, type Schedule } from '@drover/protocol';
import { type Cell, formatFields, formatSpan, formatTable, jsonText } from './output.js';
import type { TextFormat } from './text-format.js';

export function schedulesText(schedules: readonly Schedule[], nextCursor: string | null, { time }: TextFormat): string {
  if (schedules.length === 0) return 'no schedules';
  const rows = schedules.map((one): Cell[] => [
    ...[one.name, one.state, one.text, String(one.job.type), time(one.nextAt), time(one.lastFiredAt)],
    ...[one.fired, one.skipped],
  ]);
  return more(formatTable(['name', 'state', 'when', 'job', 'next', 'last', 'fired', 'skipped'], rows), nextCursor);
}

export function scheduleText(one: Schedule, { time }: TextFormat): string {
  const span = (ms: number | null) => (ms === null ? null : formatDuration(ms));
  return formatFields([
    ['name', one.name],
    ['description', one.description],
    ['group', one.group],
    ['state', one.state],
    [
      'paused',
      one.pause &&
        `by ${one.pause.pausedBy} since ${time(one.pause.pausedAt)}${one.pause.note ? `: ${one.pause.note}` : ''}`,
    ],
    ['when', one.text],
    ['clocks', `gap ${one.gap}, repeat ${one.repeat ?? 'by pattern'}`],
    ['start', time(one.start)],
    ['end', time(one.end)],
    ['spread', span(one.spread)],
    ['jitter', span(one.jitter)],
    ['catch-up', `${one.catchUp} within ${formatDuration(one.catchUpWindow)}`],
    ['overlap', one.overlap],
    ['pauses after', one.pauseAfterFailures === null ? null : `${one.pauseAfterFailures} failures`],
    [
      'occurrences',
      `${one.fired} fired, ${one.skipped} skipped${one.maxOccurrences === null ? '' : `, at most ${one.maxOccurrences}`}`,
    ],
    ['next', time(one.nextAt)],
    ['waiting', time(one.waitingAt)],
    ['last', time(one.lastFiredAt)],
    ['last job', one.lastJobId],
    ['job', jsonText(one.job)],
    ['version', one.version],
  ]);
}

export function occurrencesText(
  occurrences: readonly Occurrence[],
  nextCursor: string | null,
  { time }: TextFormat,
): string {
  if (occurrences.length === 0) return 'no occurrences';
  const rows = occurrences.map((one): Cell[] => [
    ...[nominalText(one, time), one.kind, one.reason ? `${one.state}: ${one.reason}` : one.state],
    ...[time(one.decidedAt), formatSpan(one.latenessMs), one.jobId, one.jobState],
  ]);
  return more(formatTable(['nominal', 'kind', 'state', 'decided', 'late', 'job', 'job state'], rows), nextCursor);
}

/** A run is shown with its last nominal time and its count. */
function nominalText({ nominalAt, lastAt, count }: Occurrence, time: TextFormat['time']): string | null {
  const first = time(nominalAt);
  return lastAt === null ? first : `${first} … ${time(lastAt)} (${count})`;
}

export function previewText(preview: Preview, { time }: TextFormat): string {
  const head = `${preview.text}\ngap ${preview.gap}, repeat ${[...new Set(preview.repeat)].join(' and ')}\n`;
  if (preview.occurrences.length === 0) return `${head}no occurrences`;
  const rows = preview.occurrences.map((one): Cell[] => [
    ...[time(one.at), one.local, one.dueAt === one.at ? null : time(one.dueAt), one.note],
  ]);
  return `${head}\n${formatTable(['time', 'in its time zone', 'due', 'note'], rows)}`;
}

export function calendarsText(calendars: readonly Calendar[], { time }: TextFormat): string {
  if (calendars.length === 0) return 'no calendars';
  const rows = calendars.map((one): Cell[] => [one.name, one.dates.length, one.description, time(one.updatedAt)]);
  return formatTable(['name', 'days', 'description', 'changed'], rows);
}

function more(table: string, nextCursor: string | null): string {
  return nextCursor === null ? table : `${table}\nmore: --cursor ${nextCursor}`;
}
