/** Starts the server of a command. Errors name the flag to change. */
import { createServer as createTcpServer } from 'node:net';
import type { Logger } from 'pino';
import { hasValidTokens } from '../access/token-table.js';
import {
  checkCredentials,
  checkDatabaseChoice,
  checkServerConfig,
  openOnLoopback,
  toServerConfig,
} from '../config/check-exposure.js';
import { checkTransport } from '../config/check-tls.js';
import { type ConfiguredToken, isOpen, type ServerConfig } from '../config/server-config.js';
import type { Settings } from '../config/settings.js';
import { createServer, type DroverServer } from '../server.js';
import { readCertificate } from '../tls/read-certificate.js';
import type { CliContext } from './context.js';
import { openDatabase } from './open-database.js';
import type { Teardown } from './stop-signal.js';
import { withDatabase } from './with-database.js';

export type OpenServerOptions = {
  context: CliContext;
  logger: Logger;
  teardown: Teardown;
  signal: AbortSignal;
  /** Tokens for this process's own use, in addition to the configured ones. */
  ownTokens?: ConfiguredToken[];
  /** It needs no credentials on loopback. */
  openOnLoopback?: boolean;
};

/** The address of the running server. */
export async function openServer(settings: Settings, options: OpenServerOptions): Promise<string> {
  const { context, logger, teardown, signal } = options;
  // All checks that need no database come before a database is started.
  checkDatabaseChoice(settings);
  const given = toServerConfig(settings, '');
  const config = options.openOnLoopback ? openOnLoopback(given) : given;
  checkServerConfig(config);
  checkTransport(settings);
  if (config.tls !== undefined) await readCertificate(config.tls, new Date());
  await requireFreePort(settings);
  signal.throwIfAborted();
  const database = await openDatabase(settings, { context, logger, teardown });
  signal.throwIfAborted();
  await checkCredentials(config, () => withDatabase(database.url, ({ reads }) => hasValidTokens(reads)));
  const server = createServer(withOwnTokens({ ...config, databaseUrl: database.url }, options.ownTokens), { logger });
  teardown.add(() => server.stop());
  if (config.tls !== undefined) reloadOnHangup(server, teardown);
  await server.start().catch((error: unknown) => {
    throw isTaken(error) ? portIsTaken(settings) : error;
  });
  return server.address;
}

/** Only with TLS: otherwise a server ends with its terminal, as other programs do. */
function reloadOnHangup(server: DroverServer, teardown: Teardown): void {
  const reload = () => void server.reloadCertificate();
  process.on('SIGHUP', reload);
  teardown.add(async () => void process.off('SIGHUP', reload));
}

/** An open server accepts every caller; adding our own tokens would lock out all others. */
function withOwnTokens(config: ServerConfig, own: readonly ConfiguredToken[] = []): ServerConfig {
  return isOpen(config) ? config : { ...config, tokens: [...config.tokens, ...own] };
}

async function requireFreePort(settings: Pick<Settings, 'host' | 'port'>): Promise<void> {
  if (settings.port === 0) return;
  const probe = createTcpServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (error) => reject(isTaken(error) ? portIsTaken(settings) : error));
    probe.listen(settings.port, settings.host, () => probe.close(() => resolve()));
  });
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
}

function portIsTaken({ host, port }: Pick<Settings, 'host' | 'port'>): Error {
  return new Error(`port ${port} on ${host} is taken: stop what listens there, or choose another port with --port`);
}
