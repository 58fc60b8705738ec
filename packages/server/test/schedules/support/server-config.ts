/** The settings of a server in a test of schedules: everybody may use it, on any free port. */
import type { ServerConfig } from '../../../src/config/server-config.js';

export function serverConfig(databaseUrl: string): ServerConfig {
  return {
    ...{ port: 0, host: '127.0.0.1', databaseUrl, tokens: [], insecure: true, publicUrl: undefined },
    ...{
      tokenRequests: 0,
      tokenMemoryBytes: 1024 ** 3,
      auditEnqueues: false,
      auditRetentionMs: 1e10,
      trustedProxies: [],
      wrongTokenLimit: 60,
    },
    ...{ retentionMs: 86_400_000, payloadLimitBytes: 1_048_576, resultLimitBytes: 1_048_576 },
    ...{
      beatMs: 500,
      leaseMs: 5000,
      pollMs: 100,
      maxPending: 10_000,
      requestMemoryBytes: 256 * 1024 ** 2,
      lateAfterMs: 10_000,
      poolSize: 4,
      logLevel: 'silent',
    },
  };
}
