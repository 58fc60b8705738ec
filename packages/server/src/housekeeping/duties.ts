/**
 * The periodic duties of a server. Each is a bounded batch that any server may run at any time. None needs a leader;
 * when several servers run the same duty at once, it costs a little and does no harm.
 */
import { failpoint } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import { countBy } from '../base/group-by.js';
import { createPeriodic, type Periodic } from '../base/periodic.js';
import type { Database } from '../db/database.js';
import type { Dispatcher } from '../dispatch/dispatcher.js';
import type { Pauses } from '../dispatch/pauses.js';
import { cancelReturnedJobs } from '../lifecycle/cancel.js';
import { expireJobs, isAnythingToEnd } from '../lifecycle/expire.js';
import { loseExpiredSessions } from '../lifecycle/lose.js';
import type { Publish } from '../lifecycle/publish.js';
import type { JobTypes } from '../sessions/job-types.js';
import { createLeases } from '../sessions/leases.js';
import { passOnCancels } from '../sessions/pass-on-cancels.js';
import { askSurplusToMove } from '../sessions/rebalance.js';
import type { Registry } from '../sessions/registry.js';
import type { Metrics } from '../telemetry/metrics.js';
import { isAnyRunToMove, moveStoppedRuns } from '../workflows/stop-runs.js';
import { movePulse } from './beacon.js';
import type { Cluster } from './cluster.js';
import { prune } from './prune.js';
import { countRepairs, reconcile } from './reconciler.js';

export type Duties = {
  start(): void;
  stop(): Promise<void>;
  /** Passes on cancel requests now instead of at the next lookup. */
  lookForCancels(): void;
  /** Reads the pauses now instead of with the next beat. */
  lookForPauses(): void;
  /** Reads the job types now instead of with the next beat. */
  lookForTypes(): void;
};

type DutiesDeps = {
  db: Database;
  serverId: string;
  cluster: Cluster;
  dispatcher: Pick<Dispatcher, 'wake' | 'compareAll'>;
  registry: Registry;
  pauses: Pauses;
  types: Pick<JobTypes, 'refresh'>;
  logger: Logger;
  metrics: Metrics;
  beatMs: number;
  leaseMs: number;
  retentionMs: number;
  auditRetentionMs: number;
  publish: Publish;
};

const BATCH = 1000;
const PULSE_EVERY_MS = 500;
const CANCELS_EVERY_MS = 500;
const RUNS_EVERY_MS = 250;
const EXPIRY_EVERY_MS = 1000;
const PRUNE_EVERY_MS = 10 * 60_000;
/**
 * Twice per beat, so that a beat is answered within half a beat and none counts as missed because two timers are out
 * of step.
 */
const RENEWALS_A_BEAT = 2;
/** In beats: the intervals of the reconciler and of the spreading of workers, and the longest pulse. */
const RECONCILE_BEATS = 6;
const REBALANCE_BEATS = 3;
const GAP_BEATS = 2.5;
/** Share of the lease that is added before a session is declared dead, because clocks may run at different speeds. */
const DRIFT = 0.01;
const GRACE_MS = 1000;

export function createDuties(deps: DutiesDeps): Duties {
  const { serverId, cluster, dispatcher, registry, pauses, types, logger, metrics, beatMs, leaseMs, publish } = deps;
  const { control, reads } = deps.db;
  const repairs = { db: control, logger, metrics, publish };
  const maxPulseAgeMs = Math.max(GAP_BEATS * beatMs, 3 * PULSE_EVERY_MS);
  const leases = createLeases({ ...deps, db: control, servers: cluster.addresses });

  async function beat(): Promise<void> {
    await cluster.beat();
    await pauses.refresh(dispatcher);
    await types.refresh();
  }

  async function pulse(): Promise<void> {
    if (await movePulse(control, maxPulseAgeMs)) {
      const message = 'the pulse of the cluster had stopped; no worker is declared dead for one lease';
      logger.warn({ event: 'pulse.stopped' }, message);
    }
  }

  async function recover(): Promise<void> {
    failpoint('lose.before');
    const limits = { graceMs: leaseMs * DRIFT + GRACE_MS, leaseMs, maxPulseAgeMs };
    const { sessions, changes } = await loseExpiredSessions(control, serverId, BATCH, limits);
    publish(changes);
    metrics.workersLost.inc(sessions);
    // without the jobs that were added for failed ones
    const lost = changes.filter(({ verb }) => verb !== 'enqueue');
    const jobs = Object.fromEntries(countBy(lost, ({ to }) => to));
    if (sessions > 0) logger.warn({ event: 'workers.lost', sessions, ...jobs }, 'workers were lost');
    await countRepairs(repairs, 'unknown_to_worker', await dispatcher.compareAll());
  }

  async function expire(): Promise<void> {
    if (!(await isAnythingToEnd(control))) return;
    publish(await expireJobs(control, serverId, BATCH));
    publish(await cancelReturnedJobs(control, serverId, BATCH));
  }

  async function runs(): Promise<void> {
    if (await isAnyRunToMove(control)) publish(await moveStoppedRuns(control, serverId));
  }

  function cancels(): Promise<void> {
    return passOnCancels(control, registry.sessions, logger);
  }

  async function rebalance(): Promise<void> {
    const moved = await askSurplusToMove(control, registry.sessions, cluster.share().of);
    if (moved > 0) logger.info({ event: 'workers.moved', moved }, 'asked workers to move to another server');
  }

  const periodic: Periodic[] = [
    createPeriodic('beat', beatMs, beat, logger),
    createPeriodic('pulse', PULSE_EVERY_MS, pulse, logger),
    createPeriodic('renew leases', beatMs / RENEWALS_A_BEAT, leases.renew, logger),
    createPeriodic('recover', beatMs, recover, logger),
    createPeriodic('expire', EXPIRY_EVERY_MS, expire, logger),
    createPeriodic('move runs', RUNS_EVERY_MS, runs, logger),
    createPeriodic('pass on cancels', CANCELS_EVERY_MS, cancels, logger),
    createPeriodic('reconcile', RECONCILE_BEATS * beatMs, () => reconcile(repairs, serverId, 2 * beatMs), logger),
    createPeriodic('rebalance', REBALANCE_BEATS * beatMs, rebalance, logger),
    createPeriodic('prune', PRUNE_EVERY_MS, () => prune(reads, deps, logger), logger),
  ];

  function inBackground(what: string, work: Promise<void>): void {
    work.catch((error: Error) =>
      logger.warn(
        { event: 'duty.failed', err: error, duty: what },
        `${what} failed; the next regular round repeats it`,
      ),
    );
  }

  return {
    start() {
      for (const duty of periodic) duty.start();
    },
    async stop() {
      await Promise.all(periodic.map((duty) => duty.stop()));
    },
    lookForCancels: () => inBackground('passing on cancels', cancels()),
    lookForPauses: () => inBackground('reading pauses', pauses.refresh(dispatcher)),
    lookForTypes: () => inBackground('reading job types', types.refresh()),
  };
}
