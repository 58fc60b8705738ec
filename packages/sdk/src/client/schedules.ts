/** `client.schedules`: creates, changes and reads schedules. */
import {
  type Backfilled,
  type BackfillInput,
  type Calendar,
  type ListOccurrencesInput,
  type ListSchedulesInput,
  type NewCalendarInput,
  type NewScheduleInput,
  newId,
  type Occurrence,
  type Preview,
  type PreviewRequestInput,
  type RouteAnswer,
  type Schedule,
} from '@drover/protocol';
import { checkSchedulePayload, type ScheduleDefinition } from '../define-schedule.js';
import { toJson } from '../json.js';
import { choiceOption, refuse, refuseUnknownOptions } from '../options.js';
import type { Api } from './api.js';

const MISSING = ['pause', 'delete', 'keep'] as const;

export type SyncOptions = {
  /** The code defines the schedules of this group completely. */
  group: string;
  /** What to do with schedules of the group that are no longer in the code. Default: `pause`. */
  missing?: (typeof MISSING)[number] | undefined;
};

export type Synced = { put: string[]; resumed: string[]; paused: string[]; deleted: string[] };

/** Distinguishes a pause by `sync` from a pause by a person. */
const MISSING_NOTE = 'no longer in the code';
const PAGE_SIZE = 1000;

export class Schedules {
  readonly #api: Api;

  /** Use `client.schedules`. */
  constructor(api: Api) {
    this.#api = api;
  }

  /** Creates or changes a schedule. Putting the same definition again changes nothing. */
  put(definition: ScheduleDefinition): Promise<Schedule>;
  put(name: string, schedule: NewScheduleInput): Promise<Schedule>;
  async put(first: ScheduleDefinition | string, given?: NewScheduleInput): Promise<Schedule> {
    if (typeof first !== 'string') await checkSchedulePayload(first);
    const [name, body] = typeof first === 'string' ? [first, given] : [first.name, first.schedule];
    if (body === undefined) refuse('schedules.put', 'schedule', body, 'a schedule');
    toJson(body.job?.payload, 'job.payload');
    const { warnings: _, ...schedule } = await this.#api.call('putSchedule', { params: { name }, body });
    return schedule;
  }

  get(name: string): Promise<Schedule> {
    return this.#api.call('getSchedule', { params: { name } });
  }

  /** One page, by name. */
  list(filter: ListSchedulesInput = {}): Promise<RouteAnswer<'listSchedules'>> {
    return this.#api.call('listSchedules', { query: filter });
  }

  /** Returns whether the schedule existed. Jobs that it has created stay. */
  async delete(name: string): Promise<boolean> {
    return (await this.#api.call('deleteSchedule', { params: { name } })).deleted;
  }

  /** Fires one occurrence now. The same id (of the job) again is the same occurrence. */
  trigger(name: string, { id = newId() }: { id?: string | undefined } = {}): Promise<Occurrence> {
    return this.#api.call('triggerSchedule', { params: { name }, body: { id } });
  }

  pause(name: string, { note }: { note?: string | undefined } = {}): Promise<Schedule> {
    return this.#api.call('pauseSchedule', { params: { name }, body: { note } });
  }

  resume(name: string): Promise<Schedule> {
    return this.#api.call('resumeSchedule', { params: { name } });
  }

  /** Fires the past occurrences of a range that created no job. With `dryRun` it only counts them. */
  backfill(name: string, range: BackfillInput): Promise<Backfilled> {
    return this.#api.call('backfillSchedule', { params: { name }, body: range });
  }

  /** The outcome of each occurrence, latest first, one page. */
  occurrences(name: string, filter: ListOccurrencesInput = {}): Promise<RouteAnswer<'listOccurrences'>> {
    return this.#api.call('listOccurrences', { params: { name }, query: filter });
  }

  /** The next times of a schedule. The schedule need not exist. */
  preview(schedule: PreviewRequestInput | ScheduleDefinition): Promise<Preview> {
    const body = 'schedule' in schedule ? { ...schedule.schedule, name: schedule.name } : schedule;
    return this.#api.call('previewSchedule', { body });
  }

  /**
   * Makes the schedules of a group match the code: puts every given schedule; pauses, deletes or keeps the others of
   * the group. A schedule that an earlier sync paused resumes when it is in the code again.
   */
  async sync(definitions: readonly ScheduleDefinition[], options: SyncOptions): Promise<Synced> {
    refuseUnknownOptions('schedules.sync', options, ['group', 'missing']);
    const { group } = options;
    const missing = choiceOption('schedules.sync', 'missing', options.missing, MISSING) ?? 'pause';
    const synced: Synced = { put: [], resumed: [], paused: [], deleted: [] };
    for (const definition of definitions) {
      const { name, pause } = await this.put({ ...definition, schedule: { ...definition.schedule, group } });
      synced.put.push(name);
      if (pause?.note !== MISSING_NOTE) continue;
      await this.resume(name);
      synced.resumed.push(name);
    }
    if (missing === 'keep') return synced;
    const known = new Set(synced.put);
    for (const { name, state } of await this.#allOf(group)) {
      if (known.has(name)) continue;
      if (missing === 'delete') {
        await this.delete(name);
        synced.deleted.push(name);
      } else if (state !== 'paused') {
        await this.pause(name, { note: MISSING_NOTE });
        synced.paused.push(name);
      }
    }
    return synced;
  }

  /** Creates or changes a named list of days that schedules can exclude. */
  putCalendar(name: string, calendar: NewCalendarInput): Promise<Calendar> {
    return this.#api.call('putCalendar', { params: { name }, body: calendar });
  }

  getCalendar(name: string): Promise<Calendar> {
    return this.#api.call('getCalendar', { params: { name } });
  }

  async listCalendars(): Promise<Calendar[]> {
    return (await this.#api.call('listCalendars', {})).items;
  }

  async deleteCalendar(name: string): Promise<boolean> {
    return (await this.#api.call('deleteCalendar', { params: { name } })).deleted;
  }

  async #allOf(group: string): Promise<Schedule[]> {
    const all: Schedule[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.list({ group, limit: PAGE_SIZE, cursor });
      all.push(...page.items);
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    return all;
  }
}
