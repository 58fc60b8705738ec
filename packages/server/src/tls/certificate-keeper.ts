/**
 * Keeps the certificate of a running server up to date: loads it before the server listens, and again when its files
 * have changed or `reload` is called. Open connections are not affected by a new certificate.
 *
 * The files are compared by content, because certificates in a container are often replaced through symbolic links,
 * which file watchers do not notice. A new certificate that cannot be used is reported, and the present one stays.
 */
import { randomBytes } from 'node:crypto';
import type { Server as HttpsServer } from 'node:https';
import type { Logger } from 'pino';
import { createPeriodic } from '../base/periodic.js';
import type { TlsConfig } from '../config/server-config.js';
import type { Events } from '../telemetry/log-events.js';
import { EXPIRY_WARNING_MS } from '../telemetry/metrics.js';
import { type Certificate, readCertificate } from './read-certificate.js';

export type CertificateKeeper = {
  /** Loads the certificate into the server, and keeps it up to date. Throws ConfigError if it cannot be used. */
  start(server: HttpsServer): Promise<void>;
  stop(): Promise<void>;
  /** Reads the files now. Never rejects. */
  reload(): Promise<void>;
  /** Undefined before `start`. */
  readonly expiresAt: Date | undefined;
};

export type CertificateKeeperDeps = {
  config: TlsConfig;
  logger: Logger;
  events: Events;
  nowMs?: () => number;
  checkEveryMs?: number;
};

const CHECK_EVERY_MS = 5000;
const WARN_EVERY_MS = 86_400_000;
/** What Node expects as keys of session tickets. */
const TICKET_KEY_BYTES = 48;

export function createCertificateKeeper(deps: CertificateKeeperDeps): CertificateKeeper {
  const { config, logger, events, nowMs = Date.now } = deps;
  let server: HttpsServer | undefined;
  let present: Certificate | undefined;
  /** The last problem with the files. Each is reported once. */
  let problem: string | undefined;
  let warnedAt = Number.NEGATIVE_INFINITY;
  const periodic = createPeriodic('check of the certificate', deps.checkEveryMs ?? CHECK_EVERY_MS, check, logger);

  function use(certificate: Certificate): void {
    // New ticket keys: a session that began under another tlsClientCa must not be resumed.
    server?.setSecureContext({ ...certificate.context, ticketKeys: randomBytes(TICKET_KEY_BYTES) });
    present = certificate;
    warnedAt = Number.NEGATIVE_INFINITY;
  }

  async function check(): Promise<void> {
    await refresh();
    const leftMs = (present?.expiresAt.getTime() ?? Number.POSITIVE_INFINITY) - nowMs();
    if (leftMs > EXPIRY_WARNING_MS || nowMs() - warnedAt < WARN_EVERY_MS) return;
    warnedAt = nowMs();
    const days = Math.floor(leftMs / 86_400_000);
    events.tell('certificate.expiring', [
      { file: config.certFile, expiresAt: String(present?.expiresAt.toISOString()), days },
    ]);
  }

  async function refresh(): Promise<void> {
    try {
      const found = await readCertificate(config, new Date(nowMs()));
      problem = undefined;
      if (isSame(found, present)) return;
      use(found);
      const expiresAt = found.expiresAt.toISOString();
      logger.info({ event: 'certificate.reloaded', file: config.certFile, expiresAt }, 'certificate was reloaded');
    } catch (error) {
      const { message } = error as Error;
      if (message === problem) return;
      problem = message;
      events.tell('certificate.unusable', [{ reason: message }]);
    }
  }

  return {
    async start(target) {
      server = target;
      use(await readCertificate(config, new Date(nowMs())));
      periodic.start();
    },
    stop: periodic.stop,
    async reload() {
      problem = undefined;
      await refresh();
    },
    get expiresAt() {
      return present?.expiresAt;
    },
  };
}

function isSame({ context }: Certificate, present: Certificate | undefined): boolean {
  const other = present?.context;
  return context.cert === other?.cert && context.key === other?.key && context.ca === other?.ca;
}
