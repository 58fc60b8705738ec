/** The routes under /schedules and /calendars. */
import type { Database } from '../db/database.js';
import { backfillSchedule } from '../schedules/backfill-schedule.js';
import { deleteCalendar, getCalendar, listCalendars, putCalendar } from '../schedules/calendars.js';
import { checkTiming } from '../schedules/check-schedule.js';
import { listOccurrences } from '../schedules/list-occurrences.js';
import { findSchedule, listSchedules } from '../schedules/list-schedules.js';
import { pauseSchedule, resumeSchedule } from '../schedules/pause-schedule.js';
import { deleteSchedule, putSchedule } from '../schedules/put-schedule.js';
import { readCalendars } from '../schedules/read-timetables.js';
import type { Report } from '../schedules/report.js';
import { previewSchedule } from '../schedules/timing/preview.js';
import { createTimetable } from '../schedules/timing/timetable.js';
import { triggerSchedule } from '../schedules/trigger-schedule.js';
import type { RouteHandlers } from './route-handler.js';

type SchedulesDeps = {
  db: Database;
  /** A schedule has changed, or has made jobs. */
  onChange(): void;
  /** Is told what was decided before a change. */
  report: Report;
};

type ScheduleRoutes = Pick<
  RouteHandlers,
  | 'listSchedules'
  | 'getSchedule'
  | 'putSchedule'
  | 'deleteSchedule'
  | 'triggerSchedule'
  | 'pauseSchedule'
  | 'resumeSchedule'
  | 'backfillSchedule'
  | 'listOccurrences'
  | 'previewSchedule'
  | 'listCalendars'
  | 'getCalendar'
  | 'putCalendar'
  | 'deleteCalendar'
>;

export function scheduleHandlers({ db: { bulk, reads }, onChange, report }: SchedulesDeps): ScheduleRoutes {
  async function changed(name: string) {
    onChange();
    return findSchedule(bulk, name);
  }

  return {
    listSchedules: ({ query }) => listSchedules(reads, query),
    getSchedule: ({ params }) => findSchedule(reads, params.name),

    async putSchedule({ params, body }) {
      await putSchedule(bulk, params.name, body, report);
      return changed(params.name);
    },

    deleteSchedule: async ({ params }) => ({ deleted: await deleteSchedule(bulk, params.name) }),

    async triggerSchedule({ params, body }) {
      const nominalAt = await triggerSchedule(bulk, params.name, body?.id);
      onChange();
      const { items } = await listOccurrences(bulk, params.name, { from: nominalAt, to: nominalAt, limit: 1 });
      const [occurrence] = items;
      if (!occurrence) throw new Error(`the occurrence of ${nominalAt} is not in the ledger`);
      return occurrence;
    },

    async pauseSchedule({ params, body, by }) {
      await pauseSchedule(bulk, params.name, by, body?.note, report);
      return changed(params.name);
    },

    async resumeSchedule({ params }) {
      await resumeSchedule(bulk, params.name);
      return changed(params.name);
    },

    async backfillSchedule({ params, body }) {
      const backfilled = await backfillSchedule(bulk, params.name, body);
      if (!body.dryRun) onChange();
      return backfilled;
    },

    listOccurrences: ({ params, query }) => listOccurrences(reads, params.name, query),

    async previewSchedule({ body }) {
      const { name = '', count, after, job: _, ...timing } = body;
      const calendars = await readCalendars(reads, timing.exclude?.calendars);
      checkTiming(timing, calendars);
      const afterMs = after === undefined ? Date.now() : Date.parse(after);
      return previewSchedule(createTimetable(name, timing, calendars), afterMs, count);
    },

    listCalendars: async () => ({ items: await listCalendars(reads) }),
    getCalendar: ({ params }) => getCalendar(reads, params.name),

    async putCalendar({ params, body }) {
      await putCalendar(bulk, params.name, body.description, body.dates, report);
      onChange();
      return getCalendar(bulk, params.name);
    },

    deleteCalendar: async ({ params }) => ({ deleted: await deleteCalendar(bulk, params.name) }),
  };
}
