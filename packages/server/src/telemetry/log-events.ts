/**
 * Events that an operator may want to act on, each with a stable name. An event is a log line with `event` and its
 * fields; the durable record is in the table that the event is about. Other ways to publish events belong here, not
 * at their sources.
 */
import type { Logger } from 'pino';

/** The message of each event's line. */
export const EVENTS = {
  'schedule.late': 'occurrences were fired late',
  'schedule.skipped': 'occurrences were skipped',
  'schedule.paused': 'schedule paused itself',
  'type.conflict':
    'live workers define this job type differently; jobs added by name follow the worker that started last',
  'types.full': 'too many job types; the definitions of further ones are not kept',
  'certificate.expiring': 'certificate expires soon',
  'certificate.unusable': 'certificate files cannot be used; the server keeps its present certificate',
  'token.wrong': 'wrong tokens came from an address',
} as const;
export type EventName = keyof typeof EVENTS;

export type EventFields = {
  /** `count` occurrences with nominal times from `first` to `last`; the latest of them was `latenessMs` late. */
  'schedule.late': { schedule: string; count: number; first: string; last: string; latenessMs: number };
  'schedule.skipped': { schedule: string; reason: string; count: number; first: string; last: string };
  'schedule.paused': { schedule: string; reason: 'failures' | 'unreadable'; err?: Error };
  /** `worker` has just registered; `count` others differ from it, `others` are the names of some. */
  'type.conflict': { type: string; worker: string; others: string[]; count: number };
  'types.full': { limit: number; missing: number; first: string };
  /** `days` until it expires; negative after that. */
  'certificate.expiring': { file: string; expiresAt: string; days: number };
  'certificate.unusable': { reason: string };
  /** The first of an address in a minute, and the one that reaches `wrongTokenLimit`. */
  'token.wrong': { address: string; count: number };
};

export type Events = {
  /** At most MAX_TOLD of a kind at once get a line each; one more line says how many were left out. */
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
