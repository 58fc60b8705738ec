/** Converts settings to the configuration of a server, and refuses unsafe ones. Pure. */
import { formatDuration } from '@drover/protocol';
import { ConfigError } from './config-error.js';
import type { ServerConfig } from './server-config.js';
import type { Settings } from './settings.js';

/** Guessing 16 random characters is infeasible; shorter tokens tend to be words. */
const MIN_TOKEN_LENGTH = 16;
/** A lease must survive two lost beats, or a short network problem takes a worker's jobs away. */
const BEATS_PER_LEASE = 3;

const LOOPBACK_PATTERN = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i;

export function toServerConfig(settings: Settings, databaseUrl: string): ServerConfig {
  const { port, host, tokens, insecure, publicUrl, maxPending, poolSize, logLevel } = settings;
  return {
    ...{ port, host, databaseUrl, tokens, insecure, publicUrl, maxPending, poolSize, logLevel },
    retentionMs: settings.retention,
    payloadLimitBytes: settings.payloadLimit,
    resultLimitBytes: settings.resultLimit,
    beatMs: settings.beat,
    leaseMs: settings.lease,
    pollMs: settings.poll,
    lateAfterMs: settings.lateAfter,
  };
}

/** Throws if the server would accept unauthenticated callers unintentionally, or take jobs from live workers. */
export function checkServerConfig(config: ServerConfig): void {
  checkExposure(config);
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

/** Without tokens a server listens on loopback only, unless `insecure` is set. */
export function checkExposure(config: Pick<ServerConfig, 'host' | 'tokens' | 'insecure'>): void {
  const names = new Set<string>();
  const secrets = new Set<string>();
  for (const { name, token } of config.tokens) {
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
  if (config.tokens.length > 0 || config.insecure || isLoopback(config.host)) return;
  throw new ConfigError(
    `host: ${config.host} can be reached from other machines and there are no tokens: ` +
      'set DROVER_TOKENS="role:token", or --insecure to let everybody in',
  );
}

export function isLoopback(host: string): boolean {
  return LOOPBACK_PATTERN.test(host);
}
