/** The routes under /schedules and /calendars. */
import type { ScheduleEngine } from '../engine/schedules.js';
import type { RouteHandlers } from './route-handler.js';

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

export function scheduleHandlers(schedules: ScheduleEngine): ScheduleRoutes {
  return {
    listSchedules: ({ query }) => schedules.list(query),
    getSchedule: ({ params }) => schedules.get(params.name),
    putSchedule: ({ params, body }) => schedules.put(params.name, body),
    deleteSchedule: async ({ params }) => ({ deleted: await schedules.delete(params.name) }),
    pauseSchedule: ({ params, body, by }) => schedules.pause(params.name, by.principal.name, body?.note),
    resumeSchedule: ({ params }) => schedules.resume(params.name),
    triggerSchedule: ({ params, body }) => schedules.trigger(params.name, body?.id),
    backfillSchedule: ({ params, body }) => schedules.backfill(params.name, body),
    listOccurrences: ({ params, query }) => schedules.occurrences(params.name, query),

    previewSchedule({ body }) {
      const { name = '', count, after, job: _, ...timing } = body;
      return schedules.preview(timing, { name, count, after });
    },

    listCalendars: async () => ({ items: await schedules.listCalendars() }),
    getCalendar: ({ params }) => schedules.getCalendar(params.name),
    putCalendar: ({ params, body }) => schedules.putCalendar(params.name, body),
    deleteCalendar: async ({ params }) => ({ deleted: await schedules.deleteCalendar(params.name) }),
  };
}
