/** Converts settings to the configuration of a server, and refuses unsafe ones. Pure. */
import { formatDuration } from '@drover/protocol';
import { isLoopback } from '../base/is-loopback.js';
import { toTlsConfig } from './check-tls.js';
import { ConfigError } from './config-error.js';
import type { ServerConfig } from './server-config.js';
import type { Settings } from './settings.js';

/** Guessing 16 random characters is infeasible; shorter tokens tend to be words. */
const MIN_TOKEN_LENGTH = 16;
/** A lease must survive two lost beats, or a short network problem takes a worker's jobs away. */
const BEATS_PER_LEASE = 3;

export function toServerConfig(settings: Settings, databaseUrl: string): ServerConfig {
  const { port, host, tokens, insecure, publicUrl, maxPending, poolSize, logLevel } = settings;
  const { trustedProxies = [], wrongTokenLimit, auditEnqueues, tokenRequests } = settings;
  return {
    ...{ port, host, databaseUrl, tokens, insecure, publicUrl, maxPending, poolSize, logLevel },
    ...{
      trustedProxies,
      wrongTokenLimit,
      auditEnqueues,
      tokenRequests,
      tokenMemoryBytes: settings.tokenMemory,
      auditRetentionMs: settings.auditRetention,
    },
    tls: toTlsConfig(settings),
    retentionMs: settings.retention,
    requestMemoryBytes: settings.requestMemory,
    payloadLimitBytes: settings.payloadLimit,
    resultLimitBytes: settings.resultLimit,
    beatMs: settings.beat,
    leaseMs: settings.lease,
    pollMs: settings.poll,
    lateAfterMs: settings.lateAfter,
  };
}

/** Throws if tokens could be guessed, or if the server would take jobs from live workers. */
export function checkServerConfig(config: ServerConfig): void {
  checkTokens(config.tokens);
  if (config.leaseMs < BEATS_PER_LEASE * config.beatMs) {
    throw new ConfigError(
      `lease: expected at least ${BEATS_PER_LEASE} beats of ${formatDuration(config.beatMs)}, ` +
        `got ${formatDuration(config.leaseMs)}`,
    );
  }
}

/**
 * Without a database URL a database is only created if this is asked for: a server in a container whose URL is missing
 * would otherwise begin with an empty database, and lose it with the container.
 */
export function checkDatabaseChoice({
  databaseUrl,
  embedded,
  dataDir,
}: Pick<Settings, 'databaseUrl' | 'embedded' | 'dataDir'>): void {
  if (databaseUrl !== undefined && embedded) {
    throw new ConfigError('embedded: expected either this or databaseUrl, got both');
  }
  if (databaseUrl !== undefined || embedded) return;
  throw new ConfigError(
    'databaseUrl: expected the address of your PostgreSQL (DROVER_DATABASE_URL or --database-url), got none; ' +
      `to run an embedded PostgreSQL in ${dataDir} instead, use --embedded (DROVER_EMBEDDED=true)`,
  );
}

/** `drover dev` needs no credentials on loopback. */
export function openOnLoopback(config: ServerConfig): ServerConfig {
  return isLoopback(config.host) ? { ...config, insecure: true } : config;
}

/**
 * No client could call a server without credentials: it needs tokens or client certificates in its configuration, or tokens in
 * the database, or `insecure`.
 */
export async function checkCredentials(
  config: Pick<ServerConfig, 'tokens' | 'insecure' | 'tls'>,
  hasValidTokens: () => Promise<boolean>,
): Promise<void> {
  const hasCredentials = config.tokens.length > 0 || (config.tls?.clients.length ?? 0) > 0;
  if (hasCredentials || config.insecure || (await hasValidTokens())) return;
  throw new ConfigError(
    'tokens: expected at least one in the database (`drover token bootstrap` makes the first one) or in the configuration ' +
      '(DROVER_TOKENS="role:token"), got none; to let every caller do everything, use --insecure (DROVER_INSECURE=true)',
  );
}

function checkTokens(tokens: ServerConfig['tokens']): void {
  const names = new Set<string>();
  const secrets = new Set<string>();
  for (const { name, token } of tokens) {
    if (token.length < MIN_TOKEN_LENGTH) {
      throw new ConfigError(
        `tokens: "${name}" has ${token.length} characters, expected at least ${MIN_TOKEN_LENGTH}: ` +
          'make one with `openssl rand -base64 32`',
      );
    }
    if (names.has(name)) throw new ConfigError(`tokens: there are two with the name "${name}"`);
    if (secrets.has(token)) throw new ConfigError(`tokens: "${name}" is the same as another one`);
    names.add(name);
    secrets.add(token);
  }
}
