/** What a client does with schedules: `client.schedules`. */
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
import { refuse, refuseUnknownOptions } from '../options.js';
import type { Requester } from './requester.js';

export type SyncOptions = {
  /** The schedules of this group are those of the code, and no others. */
  group: string;
  /** What becomes of schedules of the group that the code no longer has. Default `pause`. */
  missing?: 'pause' | 'delete' | 'keep' | undefined;
};

export type Synced = { put: string[]; resumed: string[]; paused: string[]; deleted: string[] };

/** By this note a pause of `sync` is known from a person's. */
const MISSING_NOTE = 'no longer in the code';
const PAGE_SIZE = 1000;

export class Schedules {
  readonly #requester: Requester;

  /** Use `client.schedules`. */
  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** Makes or changes a schedule. The same again is no change. */
  put(definition: ScheduleDefinition): Promise<Schedule>;
  put(name: string, schedule: NewScheduleInput): Promise<Schedule>;
  async put(first: ScheduleDefinition | string, given?: NewScheduleInput): Promise<Schedule> {
    if (typeof first !== 'string') await checkSchedulePayload(first);
    const [name, schedule] = typeof first === 'string' ? [first, given] : [first.name, first.schedule];
    return (await this.#send('PUT', pathOf(name), schedule ?? {})) as Schedule;
  }

  async get(name: string): Promise<Schedule> {
    return (await this.#send('GET', pathOf(name))) as Schedule;
  }

  /** One page, by name. */
  async list(filter: ListSchedulesInput = {}): Promise<RouteAnswer<'listSchedules'>> {
    return (await this.#send('GET', `/api/v1/schedules${queryText(filter)}`)) as RouteAnswer<'listSchedules'>;
  }

  /** Gives whether there was one. The jobs it has made stay. */
  async delete(name: string): Promise<boolean> {
    return ((await this.#send('DELETE', pathOf(name))) as RouteAnswer<'deleteSchedule'>).deleted;
  }

  /** Fires one occurrence now. The same id (of the job) again is the same occurrence. */
  async trigger(name: string, { id = newId() }: { id?: string | undefined } = {}): Promise<Occurrence> {
    return (await this.#send('POST', `${pathOf(name)}/trigger`, { id })) as Occurrence;
  }

  async pause(name: string, { note }: { note?: string | undefined } = {}): Promise<Schedule> {
    return (await this.#send('POST', `${pathOf(name)}/pause`, { note })) as Schedule;
  }

  async resume(name: string): Promise<Schedule> {
    return (await this.#send('POST', `${pathOf(name)}/resume`)) as Schedule;
  }

  /** Fires the past occurrences of a range that made no job; with `dryRun` it only counts them. */
  async backfill(name: string, range: BackfillInput): Promise<Backfilled> {
    return (await this.#send('POST', `${pathOf(name)}/backfill`, range)) as Backfilled;
  }

  /** What became of each occurrence, latest first, one page. */
  async occurrences(name: string, filter: ListOccurrencesInput = {}): Promise<RouteAnswer<'listOccurrences'>> {
    const path = `${pathOf(name)}/occurrences${queryText(filter)}`;
    return (await this.#send('GET', path)) as RouteAnswer<'listOccurrences'>;
  }

  /** The next times of a schedule that need not exist. */
  async preview(schedule: PreviewRequestInput | ScheduleDefinition): Promise<Preview> {
    const request = 'schedule' in schedule ? { ...schedule.schedule, name: schedule.name } : schedule;
    return (await this.#send('POST', '/api/v1/schedules/preview', request)) as Preview;
  }

  /**
   * Makes the schedules of a group those of the code: puts every given one, and pauses, deletes or keeps those of
   * the group that are not given. One that an earlier sync paused goes on when the code has it again.
   */
  async sync(definitions: readonly ScheduleDefinition[], options: SyncOptions): Promise<Synced> {
    refuseUnknownOptions('schedules.sync', options, ['group', 'missing']);
    const { group, missing = 'pause' } = options;
    if (!['pause', 'delete', 'keep'].includes(missing))
      refuse('schedules.sync', 'missing', missing, 'pause, delete or keep');
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

  /** Makes or changes a named list of days that schedules can exclude. */
  async putCalendar(name: string, calendar: NewCalendarInput): Promise<Calendar> {
    return (await this.#send('PUT', calendarPath(name), calendar)) as Calendar;
  }

  async getCalendar(name: string): Promise<Calendar> {
    return (await this.#send('GET', calendarPath(name))) as Calendar;
  }

  async listCalendars(): Promise<Calendar[]> {
    return ((await this.#send('GET', '/api/v1/calendars')) as RouteAnswer<'listCalendars'>).items;
  }

  async deleteCalendar(name: string): Promise<boolean> {
    return ((await this.#send('DELETE', calendarPath(name))) as RouteAnswer<'deleteCalendar'>).deleted;
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

  #send(method: string, path: string, body?: object): Promise<unknown> {
    return this.#requester.request({ method, path, body: body === undefined ? undefined : JSON.stringify(body) });
  }
}

function pathOf(name: string): string {
  if (typeof name !== 'string' || name === '') return refuse('schedules', 'name', name, 'the name of a schedule');
  return `/api/v1/schedules/${encodeURIComponent(name)}`;
}

function calendarPath(name: string): string {
  if (typeof name !== 'string' || name === '') return refuse('schedules', 'name', name, 'the name of a calendar');
  return `/api/v1/calendars/${encodeURIComponent(name)}`;
}

function queryText(filter: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value !== undefined) query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query.size === 0 ? '' : `?${query}`;
}
