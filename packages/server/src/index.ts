/** The server as a library, for applications that run one inside their own process. */
export type { ConfiguredToken, LogLevel, ServerConfig } from './config/server-config.js';
export { type EmbeddedPostgres, startEmbeddedPostgres } from './db/embedded.js';
export { migrate, SchemaError } from './db/migrate.js';
export { createServer, type DroverServer } from './server.js';
export { VERSION } from './version.js';
