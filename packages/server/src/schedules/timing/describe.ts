/** The specs of a schedule in words: "at 09:30 on Monday to Friday, Europe/Berlin". */
import { formatDuration, type ScheduleSpec, type ScheduleTiming } from '@drover/protocol';
import { type Cron, parseCron } from './cron.js';

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  '',
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const ORDINALS = ['', 'first', 'second', 'third', 'fourth', 'fifth'];
/** More times than this are described field by field. */
const MAX_TIMES_LISTED = 6;
const EPOCH_MS = 0;

export function describeSchedule(timing: Pick<ScheduleTiming, 'specs' | 'timeZone' | 'exclude'>): string {
  const specs = timing.specs.map(describeSpec).join('; and ');
  const usesZone = timing.specs.some((spec) => spec.kind === 'cron');
  const { dates = [], calendars = [] } = timing.exclude ?? {};
  const except = [
    ...(dates.length > 0 ? [dates.length === 1 ? (dates[0] as string) : `${dates.length} days`] : []),
    ...calendars.map((name) => `the days of ${name}`),
  ];
  return `${specs}${usesZone ? `, ${timing.timeZone}` : ''}${except.length > 0 ? `, except ${list(except)}` : ''}`;
}

function describeSpec(spec: ScheduleSpec): string {
  if (spec.kind === 'interval') {
    const from = Date.parse(spec.anchor) === EPOCH_MS ? '' : ` from ${spec.anchor}`;
    return `every ${formatDuration(spec.every)}${from}`;
  }
  if (spec.kind === 'times') {
    const [first, last] = [spec.at[0] as string, spec.at.at(-1) as string];
    return spec.at.length === 1 ? `once at ${first}` : `at ${spec.at.length} times from ${first} to ${last}`;
  }
  const cron = parseCron(spec.cron);
  return [timesText(cron), daysText(cron), monthsText(cron)].filter((part) => part !== '').join(' ');
}

function timesText({ seconds, minutes, hours }: Cron): string {
  const count = seconds.length * minutes.length * hours.length;
  if (count <= MAX_TIMES_LISTED) {
    const times = hours.flatMap((hour) =>
      minutes.flatMap((minute) => seconds.map((second) => clock(hour, minute, second))),
    );
    return `at ${list(times)}`;
  }
  const second = seconds.length === 1 && seconds[0] === 0 ? '' : `${fieldText('second', seconds, 60)} of `;
  const minute = fieldText('minute', minutes, 60);
  const hour = hours.length === 24 ? '' : ` in ${fieldText('hour', hours, 24)}`;
  if (hours.length === 24 && minutes.length === 1 && second === '') {
    return minutes[0] === 0 ? 'every hour' : `at minute ${minutes[0]} of every hour`;
  }
  return `${second === '' ? '' : second}${minute}${hour}`;
}

function fieldText(unit: string, values: readonly number[], size: number): string {
  if (values.length === size) return `every ${unit}`;
  const step = values.length > 1 ? (values[1] as number) - (values[0] as number) : 0;
  const isStepped = step > 1 && values.every((value, index) => value === (values[0] as number) + index * step);
  if (isStepped && (values[0] as number) < step && (values.at(-1) as number) + step >= size) {
    return `every ${step} ${unit}s${values[0] === 0 ? '' : ` from ${unit} ${values[0]}`}`;
  }
  return `${unit}${values.length > 1 ? 's' : ''} ${runs(values, String)}`;
}

function daysText({ daysOfMonth, daysOfWeek }: Cron): string {
  const ofMonth = [
    ...(isAll(daysOfMonth.days, 1) ? [] : wrap('day', runs(indices(daysOfMonth.days), String))),
    ...daysOfMonth.beforeLast.map((n) =>
      n === 0 ? 'the last day' : `${n} ${n === 1 ? 'day' : 'days'} before the last day`,
    ),
    ...(daysOfMonth.lastWeekday ? ['the last weekday'] : []),
    ...daysOfMonth.nearestWeekday.map((day) => `the weekday nearest to day ${day}`),
  ];
  const ofWeek = [
    ...(isAll(daysOfWeek.days, 0)
      ? []
      : wrap(
          '',
          runs(indices(daysOfWeek.days), (day) => DAYS[day] as string),
        )),
    ...daysOfWeek.last.map((day) => `the last ${DAYS[day]}`),
    ...daysOfWeek.nth.map(({ day, n }) => `the ${ORDINALS[n]} ${DAYS[day]}`),
  ];
  const month = ofMonth.length > 0 ? `on ${list(ofMonth)} of the month` : '';
  const week = ofWeek.length > 0 ? `on ${list(ofWeek)}` : '';
  if (month === '' || week === '') return month || week;
  return `${month} ${daysOfMonth.any || daysOfWeek.any ? 'that is also' : 'or'} ${week}`;
}

function monthsText({ months }: Cron): string {
  return isAll(months, 1) ? '' : `in ${runs(indices(months), (month) => MONTHS[month] as string)}`;
}

function wrap(word: string, text: string): string[] {
  return text === '' ? [] : [`${word} ${text}`.trim()];
}

/** `1, 2, 3, 7` as "1 to 3 and 7". */
function runs(values: readonly number[], show: (value: number) => string): string {
  const parts: string[] = [];
  for (let index = 0; index < values.length; ) {
    let end = index;
    while (end + 1 < values.length && values[end + 1] === (values[end] as number) + 1) end += 1;
    if (end - index >= 2) parts.push(`${show(values[index] as number)} to ${show(values[end] as number)}`);
    else for (let at = index; at <= end; at++) parts.push(show(values[at] as number));
    index = end + 1;
  }
  return list(parts);
}

function list(words: readonly string[]): string {
  return words.length <= 1 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

function isAll(set: readonly boolean[], first: number): boolean {
  return set.every((value, index) => value || index < first);
}

function indices(set: readonly boolean[]): number[] {
  return set.flatMap((value, index) => (value ? [index] : []));
}

function clock(hour: number, minute: number, second: number): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(hour)}:${two(minute)}${second === 0 ? '' : `:${two(second)}`}`;
}
