/** Sends committed grants to their worker. Grants of a disconnected worker are released. */
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import type { Publish } from '../lifecycle/publish.js';
import { releaseJobs } from '../lifecycle/release.js';
import type { GrantedJob } from '../sessions/channel.js';
import type { Session } from '../sessions/session.js';
import type { Metrics } from '../telemetry/metrics.js';

export type Deliver = (session: Session, jobs: readonly GrantedJob[]) => void;

type DeliveryDeps = { db: Runner; logger: Logger; metrics: Pick<Metrics, 'granted'>; publish: Publish };

export function createDelivery({ db, logger, metrics, publish }: DeliveryDeps): Deliver {
  /** The channel ended between the claim and the delivery. If this fails too, the next `hello` or the reconciler repairs it. */
  function release(jobs: readonly GrantedJob[]): void {
    releaseJobs(db, jobs).then(publish, (error: Error) =>
      logger.warn(
        { event: 'release.failed', err: error, jobs: jobs.length },
        'undelivered jobs could not be released yet',
      ),
    );
  }

  return (session, jobs) => {
    if (session.closed) {
      release(jobs);
      return;
    }
    metrics.granted.inc(jobs.length);
    session.sent += jobs.length;
    for (const { id, fence } of jobs) session.grants.set(id, { fence, isSettling: false });
    try {
      session.channel.assign(jobs);
    } catch (error) {
      // which of them have reached the worker is known only after its next hello
      session.channel.disconnect();
      throw error;
    }
  };
}
