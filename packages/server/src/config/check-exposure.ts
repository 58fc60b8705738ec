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
  return {
    ...{ port, host, databaseUrl, tokens, insecure, publicUrl, maxPending, poolSize, logLevel },
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

/**
 * Throws if the server would accept unauthenticated callers unintentionally, or take jobs from live workers. With
 * `openOnLoopback` it needs no tokens on loopback: only `drover dev` asks for this.
 */
export function checkServerConfig(config: ServerConfig, options: { openOnLoopback?: boolean } = {}): void {
  checkTokens(config.tokens);
  checkExposure(config, options);
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

/** Without credentials every caller may do everything, so a server needs tokens or client certificates, or `insecure`. */
export function checkExposure(
  config: Pick<ServerConfig, 'host' | 'tokens' | 'insecure' | 'tls'>,
  { openOnLoopback = false }: { openOnLoopback?: boolean } = {},
): void {
  const hasCredentials = config.tokens.length > 0 || (config.tls?.clients.length ?? 0) > 0;
  if (hasCredentials || config.insecure || (openOnLoopback && isLoopback(config.host))) return;
  const reachable = openOnLoopback ? ` on ${config.host}, which other machines can reach` : '';
  throw new ConfigError(
    `tokens: expected at least one${reachable} (DROVER_TOKENS="role:token"; \`openssl rand -base64 32\` makes one), got none; ` +
      'to let every caller do everything, use --insecure (DROVER_INSECURE=true)',
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
