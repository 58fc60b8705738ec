/**
 * What happens that somebody may want to act on, each kind with a name that stays. Today an event is a line of the log with
 * `event` and its fields; what is durable about it is in the table that it tells of. Whoever wants to hear of
 * events by other means is added here, not where they happen.
 */
import type { Logger } from 'pino';

/** With the message of its line. */
export const EVENTS = {
  'schedule.late': 'occurrences were fired late',
  'schedule.skipped': 'occurrences were skipped',
  'schedule.paused': 'a schedule has paused itself',
} as const;
export type EventName = keyof typeof EVENTS;

export type EventFields = {
  /** `count` occurrences, from the nominal time `first` to `last`, of which the latest was `latenessMs` late. */
  'schedule.late': { schedule: string; count: number; first: string; last: string; latenessMs: number };
  'schedule.skipped': { schedule: string; reason: string; count: number; first: string; last: string };
  'schedule.paused': { schedule: string; reason: 'failures' | 'unreadable'; err?: Error };
};

export type Events = {
  /** At most MAX_TOLD of a kind at once become lines of their own; the last line says how many are not told. */
  tell<Name extends EventName>(name: Name, all: readonly EventFields[Name][]): void;
};

const MAX_TOLD = 20;

export function createEvents(logger: Logger): Events {
  return {
    tell(name, all) {
      const line = (fields: object) => logger.warn({ event: name, ...fields }, EVENTS[name]);
      for (const fields of all.slice(0, MAX_TOLD)) line(fields);
      if (all.length > MAX_TOLD) line({ untold: all.length - MAX_TOLD });
    },
  };
}
