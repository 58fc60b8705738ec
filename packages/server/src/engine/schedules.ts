/** The use cases of schedules and calendars, for the API and every other caller. */
import type {
  Backfilled,
  Calendar,
  NewSchedule,
  Occurrence,
  Preview,
  Schedule,
  ScheduleTiming,
} from '@drover/protocol';
import { audited, auditing, auditRow, writeAudit } from '../access/audit.js';
import type { Caller } from '../access/principal.js';
import type { Scope } from '../access/scope.js';
import type { Database } from '../db/database.js';
import { checkPayloadValue } from '../new-jobs/check-payload.js';
import type { KnownTypes } from '../new-jobs/known-types.js';
import { calendarSnapshot, scheduleSnapshot } from '../schedules/audit-snapshots.js';
import { backfillSchedule } from '../schedules/backfill-schedule.js';
import { deleteCalendar, getCalendar, listCalendars, putCalendar } from '../schedules/calendars.js';
import { checkTiming } from '../schedules/check-schedule.js';
import { type ListOccurrences, listOccurrences } from '../schedules/list-occurrences.js';
import { findSchedule, type ListSchedules, listSchedules } from '../schedules/list-schedules.js';
import { pauseSchedule, resumeSchedule } from '../schedules/pause-schedule.js';
import { deleteSchedule, putSchedule } from '../schedules/put-schedule.js';
import { readCalendars } from '../schedules/read-timetables.js';
import type { Report } from '../schedules/report.js';
import { previewSchedule } from '../schedules/timing/preview.js';
import { createTimetable } from '../schedules/timing/timetable.js';
import { triggerSchedule } from '../schedules/trigger-schedule.js';

type Page<Item> = { items: Item[]; nextCursor: string | null };

/** Every method throws DroverError: schedule_not_found, calendar_not_found, invalid_request and so on. */
export type ScheduleEngine = {
  /** `scope`: only schedules whose jobs are in it. */
  list(query: ListSchedules, scope: Scope | undefined): Promise<Page<Schedule>>;
  get(name: string): Promise<Schedule>;
  /** Creates or changes it. The same schedule again changes nothing. */
  put(name: string, schedule: NewSchedule, by: Caller): Promise<Schedule>;
  /** Returns whether it existed. */
  delete(name: string, by: Caller): Promise<boolean>;
  pause(name: string, by: Caller, note: string | undefined): Promise<Schedule>;
  resume(name: string, by: Caller): Promise<Schedule>;
  /** Fires one occurrence now. The same job id again is the same occurrence. */
  trigger(name: string, jobId: string | undefined, by: Caller): Promise<Occurrence>;
  /** Fires the past occurrences of a range that have no job. */
  backfill(name: string, range: { from: string; to: string; dryRun: boolean }, by: Caller): Promise<Backfilled>;
  occurrences(name: string, query: ListOccurrences): Promise<Page<Occurrence>>;
  /** The next times of a schedule, which need not exist. Default of `after`: now, by this server's clock. */
  preview(timing: ScheduleTiming, from: { name: string; count: number; after: string | undefined }): Promise<Preview>;

  listCalendars(): Promise<Calendar[]>;
  getCalendar(name: string): Promise<Calendar>;
  putCalendar(
    name: string,
    calendar: { description?: string | undefined; dates: readonly string[] },
    by: Caller,
  ): Promise<Calendar>;
  /** Returns whether it existed. Throws calendar_in_use. */
  deleteCalendar(name: string, by: Caller): Promise<boolean>;
};

export type ScheduleEngineDeps = {
  db: Pick<Database, 'bulk' | 'reads'>;
  /** Receives what was decided before a change. */
  report: Report;
  /** Called when a next time has changed, or jobs are ready. */
  onChange(): void;
  types(): Promise<KnownTypes>;
  nowMs?: () => number;
};

export function createScheduleEngine(deps: ScheduleEngineDeps): ScheduleEngine {
  const { bulk, reads } = deps.db;
  const { report, onChange, nowMs = Date.now } = deps;

  const scheduleChange = (name: string, by: Caller) =>
    auditing(bulk, by, { target: name, snapshot: (tx) => scheduleSnapshot(tx, name) });
  const calendarChange = (name: string, by: Caller) =>
    auditing(bulk, by, { target: name, snapshot: (tx) => calendarSnapshot(tx, name) });

  /** Read on the connections that wrote it. */
  async function changed(name: string): Promise<Schedule> {
    onChange();
    return findSchedule(bulk, name);
  }

  return {
    list: (query, scope) => listSchedules(reads, query, scope),
    get: (name) => findSchedule(reads, name),

    async put(name, schedule, by) {
      const { type, payload = null, complete } = schedule.job;
      if (complete !== true) checkPayloadValue((await deps.types()).get(type), payload, 'job.payload');
      await putSchedule(scheduleChange(name, by), name, schedule, report);
      return changed(name);
    },

    delete: (name, by) => scheduleChange(name, by).transaction((tx) => deleteSchedule(tx, name)),

    async pause(name, by, note) {
      await pauseSchedule(scheduleChange(name, by), name, by.principal.name, note, report);
      return changed(name);
    },

    async resume(name, by) {
      await resumeSchedule(scheduleChange(name, by), name);
      return changed(name);
    },

    async trigger(name, jobId, by) {
      const nominalAt = await triggerSchedule(bulk, name, jobId, (tx, fired) =>
        writeAudit(tx, [auditRow(by, { target: name, after: fired })]),
      );
      onChange();
      const { items } = await listOccurrences(bulk, name, { from: nominalAt, to: nominalAt, limit: 1 });
      const [occurrence] = items;
      if (!occurrence) throw new Error(`the occurrence of ${nominalAt} is not in the ledger`);
      return occurrence;
    },

    async backfill(name, range, by) {
      const backfilled = await audited(bulk, by, async (tx, note) => {
        const done = await backfillSchedule(tx, name, range);
        if (!range.dryRun) note({ target: name, after: { from: range.from, to: range.to, ...done } });
        return done;
      });
      if (!range.dryRun) onChange();
      return backfilled;
    },

    occurrences: (name, query) => listOccurrences(reads, name, query),

    async preview(timing, { name, count, after }) {
      const calendars = await readCalendars(reads, timing.exclude?.calendars);
      checkTiming(timing, calendars);
      const afterMs = after === undefined ? nowMs() : Date.parse(after);
      return previewSchedule(createTimetable(name, timing, calendars), afterMs, count);
    },

    listCalendars: () => listCalendars(reads),
    getCalendar: (name) => getCalendar(reads, name),

    async putCalendar(name, { description, dates }, by) {
      await putCalendar(calendarChange(name, by), name, description, dates, report);
      onChange();
      return getCalendar(bulk, name);
    },

    deleteCalendar: (name, by) => deleteCalendar(calendarChange(name, by), name),
  };
}
