/** The routes under /schedules and /calendars. A schedule belongs to the queue and the type of its jobs. */
import { DroverError, type Schedule } from '@drover/protocol';
import type { Caller, Principal } from '../access/principal.js';
import { requireInScope } from '../access/scope.js';
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine/engine.js';
import type { ScheduleEngine } from '../engine/schedules.js';
import { placedJob, scheduleWarnings } from '../new-jobs/known-types.js';
import { hiddenJson } from '../queries/hidden.js';
import { isScheduleInScope } from '../queries/lanes-in-scope.js';
import type { RouteHandlers } from './route-handler.js';
import { typesFor } from './types-in-scope.js';

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

type SchedulesDeps = { schedules: ScheduleEngine; engine: Pick<Engine, 'types'>; db: Runner };

export function scheduleHandlers({ schedules, engine, db }: SchedulesDeps): ScheduleRoutes {
  /** A schedule outside of the caller's scope does not exist for the caller. */
  async function requireVisible({ principal: { scope } }: Caller, name: string): Promise<void> {
    if (scope === undefined || (await isScheduleInScope(db, scope, name))) return;
    throw new DroverError('schedule_not_found', `there is no schedule ${name}`, { name });
  }

  /** A schedule outside of the caller's scope must not be replaced. The refusal shows that its name is taken. */
  async function requireOwn({ principal: { name: caller, scope } }: Caller, name: string): Promise<void> {
    if (scope === undefined || (await isScheduleInScope(db, scope, name)) !== false) return;
    throw new DroverError('forbidden', `schedule ${name} exists and is outside of the queues and types of "${caller}"`);
  }

  return {
    async listSchedules({ query, by: { principal } }) {
      const { items, nextCursor } = await schedules.list(query, principal.scope);
      return { items: items.map((one) => visible(one, principal)), nextCursor };
    },
    async getSchedule({ params: { name }, by }) {
      await requireVisible(by, name);
      return visible(await schedules.get(name), by.principal);
    },
    async putSchedule({ params: { name }, body, by }) {
      const types = await typesFor(engine, by.principal);
      requireInScope(by.principal, [placedJob(body.job, types)], (field) => `job.${field}`);
      await requireOwn(by, name);
      const schedule = visible(await schedules.put(name, body, by), by.principal);
      return { ...schedule, ...scheduleWarnings(body.job, types) };
    },
    async deleteSchedule({ params: { name }, by }) {
      await requireOwn(by, name);
      return { deleted: await schedules.delete(name, by) };
    },
    async pauseSchedule({ params: { name }, body, by }) {
      await requireVisible(by, name);
      return visible(await schedules.pause(name, by, body?.note), by.principal);
    },
    async resumeSchedule({ params: { name }, by }) {
      await requireVisible(by, name);
      return visible(await schedules.resume(name, by), by.principal);
    },
    async triggerSchedule({ params: { name }, body, by }) {
      await requireVisible(by, name);
      return schedules.trigger(name, body?.id, by);
    },
    async backfillSchedule({ params: { name }, body, by }) {
      await requireVisible(by, name);
      return schedules.backfill(name, body, by);
    },
    async listOccurrences({ params: { name }, query, by }) {
      await requireVisible(by, name);
      return schedules.occurrences(name, query);
    },

    previewSchedule({ body }) {
      const { name = '', count, after, job: _, ...timing } = body;
      return schedules.preview(timing, { name, count, after });
    },

    listCalendars: async () => ({ items: await schedules.listCalendars() }),
    getCalendar: ({ params }) => schedules.getCalendar(params.name),
    putCalendar: ({ params, body, by }) => schedules.putCalendar(params.name, body, by),
    deleteCalendar: async ({ params, by }) => ({ deleted: await schedules.deleteCalendar(params.name, by) }),
  };
}

function visible(schedule: Schedule, { payloads }: Principal): Schedule {
  if (payloads) return schedule;
  const payload: unknown = JSON.parse(hiddenJson(JSON.stringify(schedule.job.payload ?? null)));
  return { ...schedule, job: { ...schedule.job, payload } };
}
