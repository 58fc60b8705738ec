/** Handles a worker's hello: opens its session in the database and serves it over this channel. */

import { DroverError, type Grant, type Hello } from '@drover/protocol';
import { failpoint, isSwitchedOff } from '@drover/protocol/test-points';
import type { Logger } from 'pino';
import { identityOf, type Principal } from '../access/principal.js';
import { requireWorkerInScope } from '../access/scope.js';
import type { TransactionRunner } from '../db/database.js';
import type { Publish } from '../lifecycle/publish.js';
import type { Channel } from './channel.js';
import { definitionsOf, type JobTypes } from './job-types.js';
import { openSession } from './open-session.js';
import type { Registry } from './registry.js';
import { createSession, holds, type Session } from './session.js';
import { isSameProof, notProven, proofOf, type SessionProof } from './session-proof.js';

export type RegistrationDeps = {
  db: TransactionRunner;
  logger: Logger;
  serverId: string;
  registry: Registry;
  types: Pick<JobTypes, 'register'>;
  publish: Publish;
  beatMs: number;
  leaseMs: number;
  clusterId(): Promise<string>;
  /** The addresses of all live servers. */
  servers(): string[];
  /** Called when a worker may get jobs. */
  onRegistered(): void;
};

export type Connected = { channel: Channel; principal: Principal };

/** Undefined if the channel was closed meanwhile. Throws DroverError: wrong_cluster, overtaken, forbidden. */
export async function registerWorker(
  deps: RegistrationDeps,
  hello: Hello,
  { channel, principal }: Connected,
): Promise<Session | undefined> {
  const { registry, serverId, beatMs, leaseMs } = deps;
  requireWorkerInScope(principal, hello);
  const clusterId = await deps.clusterId();
  if (hello.clusterId !== undefined && hello.clusterId !== clusterId) throw wrongCluster(hello.clusterId, clusterId);
  const proof = proofOf(hello, identityOf(principal));
  replaceOlder(registry, hello, proof);
  const definitions = definitionsOf(hello);
  const hashes = definitions.map(({ hash }) => hash);
  const opened = await openSession(deps.db, serverId, hello, leaseMs, proof, hashes);
  failpoint('session.opened');
  deps.publish(opened?.changes ?? []);
  if (opened) await deps.types.register(hello, definitions);
  if (!channel.isOpen) return undefined;
  if (!opened) throw overtaken();
  // a newer connection may have come to this server while this one was opened
  replaceOlder(registry, hello, proof);
  const session = createSession(hello, { ...opened, channel, proof, principal });
  channel.welcome({ serverId, clusterId, beatMs, leaseMs, servers: deps.servers(), dropped: toDrop(hello, session) });
  deps.logger.info(
    {
      event: 'worker.registered',
      worker: hello.name,
      session: hello.sessionId,
      slots: hello.slots,
      holds: session.grants.size,
    },
    'worker registered',
  );
  registry.add(session);
  deps.onRegistered();
  return session;
}

/** A session has one connection, the newest: an older one of this server ends, and a newer one stays. */
function replaceOlder(registry: Registry, { sessionId, connection }: Hello, proof: SessionProof): void {
  const present = registry.sessions.get(sessionId);
  if (present && !isSameProof(present.proof, proof)) throw notProven(sessionId);
  if (present && present.connection > connection) throw overtaken();
  if (present) registry.disconnect(present, 'the worker has a newer connection');
}

/** Grants that the worker named and does not hold any more. */
function toDrop(hello: Hello, session: Session): Grant[] {
  return isSwitchedOff('fencing') ? [] : hello.holds.filter((grant) => !holds(session, grant));
}

/** The worker has a newer connection; if it is still on this one, it may try again. */
function overtaken(): DroverError {
  return new DroverError('overtaken', 'this hello was overtaken by a newer connection of the same worker');
}

function wrongCluster(theirs: string, ours: string): DroverError {
  return new DroverError(
    'wrong_cluster',
    `this worker or its data folder holds jobs of the cluster ${theirs}, and this is the cluster ${ours}; ` +
      'give it servers of its own cluster, or another data folder',
  );
}
