/**
 * The metrics of this server, in the text format of Prometheus. Counters are plain numbers in memory, incremented
 * once per batch; a scrape only reads them and never queries the database. Label values come only from this file or a
 * table of the protocol: no ids, and no names of jobs, queues or schedules.
 */
import { FINISHED_STATES, isFinished, type JobVerb, SKIP_REASONS, type SkipReason } from '@drover/protocol';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { countBy } from '../base/group-by.js';
import { DATABASE_ERROR_KINDS } from '../db/database-error.js';
import type { Change } from '../lifecycle/change.js';
import { VERSION } from '../version.js';

/** How an attempt ended. */
const ATTEMPT_ENDINGS = ['succeeded', 'failed', 'snoozed', 'cancelled', 'released', 'lost'] as const;
type AttemptEnding = (typeof ATTEMPT_ENDINGS)[number];
/** The verbs that end an attempt. */
const ENDING_OF_ATTEMPT: Partial<Record<JobVerb, AttemptEnding>> = {
  complete: 'succeeded',
  retryLater: 'failed',
  fail: 'failed',
  snooze: 'snoozed',
  stop: 'cancelled',
  release: 'released',
  lose: 'lost',
};
export type RepairKind = (typeof REPAIR_KINDS)[number];

const REPAIR_KINDS = ['orphaned_job', 'unknown_to_worker', 'missing_lane'] as const;
/** Why a schedule pauses itself. */
const PAUSE_REASONS = ['failures', 'unreadable'] as const;
/** In seconds: from unnoticeable to the lateness of a schedule that was caught up. */
const LATENESS_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600];

/** Gauges, measured on each scrape. */
export type Measured = {
  workers: number;
  heldJobs: number;
  pendingJobs: number;
  sinceBeatMs: number | undefined;
  /** Undefined without TLS. */
  certificateLeftMs: number | undefined;
};

/** With less validity left, operators are warned: automatic renewal usually happens a month before the end. */
export const EXPIRY_WARNING_MS = 14 * 86_400_000;

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const { counter, counterBy, gauge } = instrumentsIn(registers);

  new Gauge({
    name: 'drover_info',
    help: 'Always 1; the label is the version.',
    registers,
    labelNames: ['version'],
  }).set({ version: VERSION }, 1);
  const workers = gauge('drover_workers', 'Workers that are connected to this server.');
  const heldJobs = gauge('drover_held_jobs', 'Jobs that the connected workers hold.');
  const pendingJobs = gauge('drover_pending_jobs', 'Jobs that wait in memory to be written; see maxPending.');
  const sinceBeat = gauge('drover_beat_age_seconds', 'Time since a beat of this server reached the database.');

  const certificateLeft = gauge('drover_certificate_expiry_seconds', 'Time until the certificate of TLS expires.');

  const attempts = counterBy(
    ...(['outcome', ATTEMPT_ENDINGS, 'drover_attempts_total'] as const),
    'Attempts whose end this server has written.',
  );
  const finished = counterBy(
    ...(['state', FINISHED_STATES, 'drover_jobs_finished_total'] as const),
    'Jobs that this server has finished, however that came.',
  );

  return {
    enqueued: counter('drover_jobs_enqueued_total', 'Jobs added through the API of this server.'),
    granted: counter('drover_jobs_granted_total', 'Jobs given to workers of this server.'),
    wrongTokens: counter('drover_wrong_tokens_total', 'Requests with a wrong token.'),
    workersLost: counter('drover_workers_lost_total', 'Workers whose lease this server found to be over.'),
    repairs: counterBy(
      ...(['kind', REPAIR_KINDS, 'drover_repairs_total'] as const),
      'Impossible rows that this server has repaired.',
    ),
    databaseErrors: counterBy(
      ...(['kind', DATABASE_ERROR_KINDS, 'drover_database_errors_total'] as const),
      'Statements that failed: refused, not sent, or without an answer.',
    ),
    occurrencesFired: counter('drover_occurrences_fired_total', 'Occurrences of schedules fired by this server.'),
    occurrencesLate: counter('drover_occurrences_late_total', 'Of these, those fired later than lateAfter.'),
    occurrencesSkipped: counterBy(
      ...(['reason', Object.keys(SKIP_REASONS) as SkipReason[], 'drover_occurrences_skipped_total'] as const),
      'Occurrences that this server has skipped.',
    ),
    schedulesPaused: counterBy(
      ...(['reason', PAUSE_REASONS, 'drover_schedules_paused_total'] as const),
      'Schedules that have paused themselves.',
    ),
    lateness: new Histogram({
      name: 'drover_occurrence_lateness_seconds',
      help: 'From the due time of an occurrence to its firing.',
      buckets: LATENESS_BUCKETS,
      registers,
    }),

    countChanges(changes: readonly Change[]): void {
      for (const [state, count] of countBy(changes, ({ to }) => (isFinished(to) ? to : undefined))) {
        finished.inc({ state }, count);
      }
      for (const [outcome, count] of countBy(changes, ({ verb }) => ENDING_OF_ATTEMPT[verb])) {
        attempts.inc({ outcome }, count);
      }
    },

    async text(measured: Measured): Promise<string> {
      workers.set(measured.workers);
      heldJobs.set(measured.heldJobs);
      pendingJobs.set(measured.pendingJobs);
      sinceBeat.set(measured.sinceBeatMs === undefined ? Number.NaN : measured.sinceBeatMs / 1000);
      certificateLeft.set(measured.certificateLeftMs === undefined ? Number.NaN : measured.certificateLeftMs / 1000);
      return `${await registry.metrics()}${await processRegistry().metrics()}`;
    },
  };
}

function instrumentsIn(registers: Registry[]) {
  return {
    counter: (name: string, help: string) => new Counter({ name, help, registers }),
    gauge: (name: string, help: string) => new Gauge({ name, help, registers }),
    /** Its label's values all exist from the start: a series that appears with its first event hides it. */
    counterBy<Label extends string>(label: Label, values: readonly string[], name: string, help: string) {
      const labelled = new Counter({ name, help, registers, labelNames: [label] });
      for (const value of values) labelled.inc({ [label]: value } as Record<Label, string>, 0);
      return labelled;
    },
  };
}

let ofProcess: Registry | undefined;

/**
 * Metrics of the process and its event loop. One registry for all servers in the process, because its collectors
 * never stop.
 */
function processRegistry(): Registry {
  if (!ofProcess) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}
