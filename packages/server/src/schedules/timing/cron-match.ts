/**
 * The next local time that matches a cron pattern. Local times are milliseconds as if local clocks showed UTC; time zones and
 * changes of clocks are added in occurrences.ts.
 *
 * The search goes month by month over one cycle of the calendar, 400 years. A pattern that matches nothing in it never matches.
 * This bounds the cost: 0.1 ms for 30 February.
 */
import type { Cron, DaysOfMonth, DaysOfWeek } from './cron.js';

const DAY_MS = 86_400_000;
const MONTHS_OF_THE_CYCLE = 400 * 12;

/** The first match at or after `wallMs`, or undefined if there is none. */
export function nextMatch(cron: Cron, wallMs: number): number | undefined {
  // whole seconds only
  const from = Math.ceil(wallMs / 1000) * 1000;
  const startOfDay = Math.floor(from / DAY_MS) * DAY_MS;
  const date = new Date(startOfDay);
  let year = date.getUTCFullYear();
  let month = date.getUTCMonth() + 1;
  let firstDay = date.getUTCDate();
  if (cron.months[month] && fitsDay(cron, year, month, firstDay)) {
    const time = timeFrom(cron, (from - startOfDay) / 1000);
    if (time !== undefined) return startOfDay + time * 1000;
  }
  firstDay += 1;
  for (let months = 0; months <= MONTHS_OF_THE_CYCLE; months++) {
    const day = cron.months[month] ? dayFrom(cron, year, month, firstDay) : undefined;
    if (day !== undefined) return Date.UTC(year, month - 1, day) + (timeFrom(cron, 0) as number) * 1000;
    firstDay = 1;
    month += 1;
    if (month > 12) {
      month = 1;
      year += 1;
    }
  }
  return undefined;
}

/** The first second of a day that matches, at or after `second`. */
function timeFrom(cron: Cron, second: number): number | undefined {
  const hourNow = Math.floor(second / 3600);
  const minuteNow = Math.floor(second / 60) % 60;
  for (const hour of cron.hours) {
    if (hour < hourNow) continue;
    const isThisHour = hour === hourNow;
    for (const minute of cron.minutes) {
      if (isThisHour && minute < minuteNow) continue;
      const least = isThisHour && minute === minuteNow ? second % 60 : 0;
      const fitting = cron.seconds.find((value) => value >= least);
      if (fitting !== undefined) return hour * 3600 + minute * 60 + fitting;
    }
  }
  return undefined;
}

function dayFrom(cron: Cron, year: number, month: number, firstDay: number): number | undefined {
  const days = daysIn(year, month);
  for (let day = firstDay; day <= days; day++) if (fitsDay(cron, year, month, day)) return day;
  return undefined;
}

function fitsDay({ daysOfMonth, daysOfWeek }: Cron, year: number, month: number, day: number): boolean {
  const ofMonth = fitsDayOfMonth(daysOfMonth, year, month, day);
  const bothNeeded = daysOfMonth.any || daysOfWeek.any;
  return ofMonth === bothNeeded ? fitsDayOfWeek(daysOfWeek, year, month, day) : ofMonth;
}

function fitsDayOfMonth(rule: DaysOfMonth, year: number, month: number, day: number): boolean {
  if (rule.days[day]) return true;
  const last = daysIn(year, month);
  if (rule.beforeLast.includes(last - day)) return true;
  if (rule.lastWeekday && day === nearestWeekday(year, month, last, last)) return true;
  return rule.nearestWeekday.some((wanted) => wanted <= last && day === nearestWeekday(year, month, wanted, last));
}

function fitsDayOfWeek(rule: DaysOfWeek, year: number, month: number, day: number): boolean {
  const weekday = weekdayOf(year, month, day);
  if (rule.days[weekday]) return true;
  if (rule.last.includes(weekday) && day + 7 > daysIn(year, month)) return true;
  return rule.nth.some((nth) => nth.day === weekday && nth.n === Math.ceil(day / 7));
}

/** The weekday (Monday to Friday) nearest to a day in the same month. */
function nearestWeekday(year: number, month: number, day: number, last: number): number {
  const weekday = weekdayOf(year, month, day);
  if (weekday === 6) return day === 1 ? 3 : day - 1;
  if (weekday === 0) return day === last ? day - 2 : day + 1;
  return day;
}

const DAYS_IN = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function daysIn(year: number, month: number): number {
  if (month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)) return 29;
  return DAYS_IN[month] as number;
}

/** 0 is Sunday. Sakamoto's method: a Date for each day of 400 years would cost ten times as much. */
function weekdayOf(year: number, month: number, day: number): number {
  const y = month < 3 ? year - 1 : year;
  const leapDays = Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400);
  return (y + leapDays + (MONTH_SHIFT[month] as number) + day) % 7;
}

const MONTH_SHIFT = [0, 0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
