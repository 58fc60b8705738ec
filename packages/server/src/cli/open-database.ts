/** Opens and migrates the database of a command: the configured one, or an embedded one in the data folder. */
import { join, resolve } from 'node:path';
import type { Logger } from 'pino';
import { checkDatabaseChoice } from '../config/check-exposure.js';
import type { Settings } from '../config/settings.js';
import { startEmbeddedPostgres } from '../db/embedded.js';
import { migrate } from '../db/migrate.js';
import type { CliContext } from './context.js';
import type { Teardown } from './stop-signal.js';

export type OpenedDatabase = { url: string; applied: string[] };

export async function openDatabase(
  settings: Pick<Settings, 'databaseUrl' | 'embedded' | 'dataDir'>,
  options: { context: CliContext; logger: Logger; teardown: Teardown; to?: number },
): Promise<OpenedDatabase> {
  checkDatabaseChoice(settings);
  const { context, logger, teardown, to } = options;
  const url = settings.databaseUrl ?? (await startEmbedded(resolve(context.cwd, settings.dataDir), logger, teardown));
  const { applied } = await migrate(url, to === undefined ? { logger } : { logger, to });
  return { url, applied };
}

async function startEmbedded(dataDir: string, logger: Logger, teardown: Teardown): Promise<string> {
  const { url, stop } = await startEmbeddedPostgres({ dataDir: join(dataDir, 'postgres'), logger });
  teardown.add(stop);
  return url;
}
