/** `drover schedule …` and `drover calendar …`: create, find, change and explain schedules. */
import { resolve } from 'node:path';
import {
  invalidInput,
  listOccurrencesQuery,
  listSchedulesQuery,
  newScheduleSchema,
  type Schedule,
} from '@drover/protocol';
import type { Command } from 'commander';
import type { z } from 'zod';
import { checked } from '../checked-input.js';
import { addSettingFlags, type CliContext } from '../context.js';
import { UsageError } from '../exit-codes.js';
import { collect, parseJson, readJsonFile } from '../job-options.js';
import { addScheduleFlags, addTimingFlags, previewFrom, scheduleFrom } from '../schedule-options.js';
import { calendarsText, occurrencesText, previewText, schedulesText, scheduleText } from '../schedule-text.js';
import type { TextFormat } from '../text-format.js';
import { show, withClient } from '../with-client.js';

type Flags = Record<string, unknown>;

export function addScheduleCommands(program: Command, context: CliContext): void {
  const schedule = program.command('schedule').description('Create, find, change and explain schedules.');
  addList(schedule, context);
  addShow(schedule, context);
  addPut(schedule, context);
  addDelete(schedule, context);
  addTrigger(schedule, context);
  addPauseAndResume(schedule, context);
  addBackfill(schedule, context);
  addOccurrences(schedule, context);
  addPreview(schedule, context);
  addCalendarCommands(program, context);
}

function addList(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('list')
    .description('List schedules by name.')
    .option('--group <name>', 'only this group')
    .option('--state <state>', 'only active, paused or ended ones')
    .option('--limit <number>', 'how many, 1 to 1000')
    .option('--cursor <cursor>', 'continue after the last page');
  addSettingFlags(command, 'client').action(async ({ group, state, limit, cursor }: Flags) => {
    const filter = checked(listSchedulesQuery, { group, state, limit, cursor });
    const page = await withClient(command, context, (client) => client.schedules.list(filter));
    show(command, context, page, (format) => schedulesText(page.items, page.nextCursor, format));
  });
}

function addShow(schedule: Command, context: CliContext): void {
  const command = schedule.command('show').description('Show a schedule.').argument('<name>', 'name of the schedule');
  addSettingFlags(command, 'client').action(async (name: string) => {
    const found = await withClient(command, context, (client) => client.schedules.get(name));
    show(command, context, found, (format) => scheduleText(found, format));
  });
}

function addPut(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('put')
    .description('Create or change a schedule. The same again changes nothing.')
    .argument('<name>', 'name of the schedule')
    .argument('[type]', 'type of its jobs')
    .argument('[payload]', 'payload of its jobs as JSON')
    .option('--file <file>', 'read the whole schedule from a JSON file instead');
  addSettingFlags(addScheduleFlags(command), 'client').action(
    async (name: string, type: string | undefined, payload: string | undefined, flags: Flags & { file?: string }) => {
      if ((type === undefined) === (flags.file === undefined))
        throw new UsageError('expected either the type of its jobs or --file');
      const given =
        flags.file === undefined
          ? scheduleFrom(type as string, payload === undefined ? undefined : parseJson(payload, 'payload'), flags)
          : await fromFile(flags.file, context);
      const put = await withClient(command, context, (client) => client.schedules.put(name, given));
      show(command, context, put, (format) => changedText(put, format));
    },
  );
}

function addDelete(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('delete')
    .description('Delete a schedule; its jobs stay.')
    .argument('<name>', 'name of the schedule');
  addSettingFlags(command, 'client').action(async (name: string) => {
    const deleted = await withClient(command, context, (client) => client.schedules.delete(name));
    show(command, context, { deleted }, () => (deleted ? `${name} is deleted` : `there was no schedule ${name}`));
  });
}

function addTrigger(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('trigger')
    .description('Fire one occurrence now, also of a paused schedule.')
    .argument('<name>', 'name of the schedule')
    .option('--id <uuid>', 'id to give the job; the same id again is the same job');
  addSettingFlags(command, 'client').action(async (name: string, { id }: { id?: string }) => {
    const occurrence = await withClient(command, context, (client) => client.schedules.trigger(name, { id }));
    show(command, context, occurrence, () => String(occurrence.jobId));
  });
}

function addPauseAndResume(schedule: Command, context: CliContext): void {
  const pause = schedule
    .command('pause')
    .description('Stop firing occurrences.')
    .argument('<name>', 'name of the schedule')
    .option('--note <text>', 'reason, shown to others');
  addSettingFlags(pause, 'client').action(async (name: string, { note }: { note?: string }) => {
    const paused = await withClient(pause, context, (client) => client.schedules.pause(name, { note }));
    show(pause, context, paused, (format) => changedText(paused, format));
  });
  const resume = schedule
    .command('resume')
    .description('Fire occurrences again, counted from now.')
    .argument('<name>', 'name of the schedule');
  addSettingFlags(resume, 'client').action(async (name: string) => {
    const resumed = await withClient(resume, context, (client) => client.schedules.resume(name));
    show(resume, context, resumed, (format) => changedText(resumed, format));
  });
}

function addBackfill(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('backfill')
    .description('Fire the past occurrences of a range that made no job.')
    .argument('<name>', 'name of the schedule')
    .requiredOption('--from <time>', 'start of the range')
    .requiredOption('--to <time>', 'end of the range, included')
    .option('--dry-run', 'only count them');
  addSettingFlags(command, 'client').action(
    async (name: string, flags: { from: string; to: string; dryRun?: boolean }) => {
      const range = { from: flags.from, to: flags.to, dryRun: flags.dryRun ?? false };
      const done = await withClient(command, context, (client) => client.schedules.backfill(name, range));
      const verb = done.dryRun ? 'would be fired' : 'fired';
      show(
        command,
        context,
        done,
        () => `${done.occurrences} occurrences, ${done.already} had a job, ${done.fired} ${verb}`,
      );
    },
  );
}

function addOccurrences(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('occurrences')
    .description('Show the outcome of each occurrence, latest first.')
    .argument('<name>', 'name of the schedule')
    .option('--state <state>', 'only fired, waiting or skipped')
    .option('--from <time>', 'nominal time at or after')
    .option('--to <time>', 'nominal time at or before')
    .option('--limit <number>', 'how many, 1 to 1000')
    .option('--cursor <cursor>', 'continue after the last page');
  addSettingFlags(command, 'client').action(async (name: string, { state, from, to, limit, cursor }: Flags) => {
    const filter = checked(listOccurrencesQuery, { state, from, to, limit, cursor });
    const page = await withClient(command, context, (client) => client.schedules.occurrences(name, filter));
    show(command, context, page, (format) => occurrencesText(page.items, page.nextCursor, format));
  });
}

function addPreview(schedule: Command, context: CliContext): void {
  const command = schedule
    .command('preview')
    .description('Show the next times of a schedule, or of one that does not exist yet.')
    .argument('[name]', 'name of a schedule; without it, the flags define one')
    .option('--count <number>', 'how many, 1 to 100')
    .option('--after <time>', 'times after this one; default now');
  addSettingFlags(addTimingFlags(command), 'client').action(async (name: string | undefined, flags: Flags) => {
    const more = {
      ...(flags.count !== undefined && { count: Number(flags.count) }),
      ...(flags.after !== undefined && { after: flags.after }),
    };
    const preview = await withClient(command, context, async (client) => {
      if (name === undefined) return client.schedules.preview(previewFrom(flags, more));
      return client.schedules.preview(previewFrom({}, { ...timingOf(await client.schedules.get(name)), ...more }));
    });
    show(command, context, preview, (format) => previewText(preview, format));
  });
}

function addCalendarCommands(program: Command, context: CliContext): void {
  const calendar = program.command('calendar').description('Named lists of days that schedules leave out.');
  const list = calendar.command('list').description('List calendars.');
  addSettingFlags(list, 'client').action(async () => {
    const items = await withClient(list, context, (client) => client.schedules.listCalendars());
    show(list, context, { items }, (format) => calendarsText(items, format));
  });
  const one = calendar
    .command('show')
    .description('Show the days of a calendar.')
    .argument('<name>', 'name of the calendar');
  addSettingFlags(one, 'client').action(async (name: string) => {
    const found = await withClient(one, context, (client) => client.schedules.getCalendar(name));
    show(one, context, found, () => found.dates.join('\n'));
  });
  const put = calendar
    .command('put')
    .description('Create or change a calendar. Its schedules get their next times at once.')
    .argument('<name>', 'name of the calendar')
    .requiredOption('--date <date>', 'a day such as 2030-12-25; may be repeated', collect)
    .option('--description <text>', 'what it is for');
  addSettingFlags(put, 'client').action(
    async (name: string, { date, description }: { date: string[]; description?: string }) => {
      const made = await withClient(put, context, (client) =>
        client.schedules.putCalendar(name, { dates: date, description }),
      );
      show(put, context, made, () => `${made.name}: ${made.dates.length} days`);
    },
  );
  const remove = calendar
    .command('delete')
    .description('Delete a calendar that no schedule uses.')
    .argument('<name>', 'name of the calendar');
  addSettingFlags(remove, 'client').action(async (name: string) => {
    const deleted = await withClient(remove, context, (client) => client.schedules.deleteCalendar(name));
    show(remove, context, { deleted }, () => (deleted ? `${name} is deleted` : `there was no calendar ${name}`));
  });
}

/** The part of an existing schedule that decides its times, as input of a preview. */
function timingOf(schedule: Schedule): Record<string, unknown> {
  const { name, specs, timeZone, gap, repeat, exclude, start, end, spread, jitter } = schedule;
  const fields = { name, specs, timeZone, gap, repeat, exclude, start, end, spread, jitter };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function changedText({ name, state, nextAt }: Schedule, { time }: TextFormat): string {
  return nextAt === null ? `${name} is ${state}` : `${name} is ${state}, next ${time(nextAt)}`;
}

async function fromFile(file: string, context: CliContext) {
  const given = await readJsonFile(resolve(context.cwd, file), '--file');
  const parsed = newScheduleSchema.safeParse(given);
  if (!parsed.success) throw invalidInput(parsed.error, given);
  return given as z.input<typeof newScheduleSchema>;
}
