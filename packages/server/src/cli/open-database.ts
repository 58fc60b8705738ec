/** Opens and migrates the database of a command: the configured one, or an embedded one in the data folder. */
import { join, resolve } from 'node:path';
import type { Logger } from 'pino';
import { isSystemProblem, systemProblem } from '../base/system-problem.js';
import { checkDatabaseChoice } from '../config/check-exposure.js';
import { ConfigError } from '../config/config-error.js';
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
  const started = startEmbeddedPostgres({ dataDir: join(dataDir, 'postgres'), logger });
  const { url, stop } = await started.catch((error: unknown) => {
    // other errors say themselves what is wrong
    if (!isSystemProblem(error)) throw error;
    throw new ConfigError(`dataDir: cannot use the folder ${dataDir}: ${systemProblem(error)}`, { cause: error });
  });
  teardown.add(stop);
  return url;
}
