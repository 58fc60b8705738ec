/** The server as a library: what an application needs to run one inside its own process. */
export type { ConfiguredToken, LogLevel, ServerConfig } from './config/server-config.js';
export { type EmbeddedPostgres, startEmbeddedPostgres } from './db/embedded.js';
export { migrate, SchemaError } from './db/migrate.js';
export { createServer, type DroverServer } from './server.js';
export { VERSION } from './version.js';
