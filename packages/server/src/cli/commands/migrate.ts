/** `drover migrate`: migrates the schema, for installations whose servers do not do it. */
import type { Command } from 'commander';
import { addSettingFlags, type CliContext, type GlobalOptions, settingsFor } from '../context.js';
import { UsageError } from '../exit-codes.js';
import { createLogger } from '../logger.js';
import { printJson, printLine } from '../output.js';
import { logWarnings } from '../setting-warnings.js';
import { Teardown } from '../stop-signal.js';

export function addMigrateCommand(program: Command, context: CliContext): void {
  const command = program
    .command('migrate')
    .description('Bring the database schema to the level of this program. Servers do it as they start, too.')
    .option('--to <number>', 'the last migration to apply');
  addSettingFlags(command, 'migrate').action(async (options: { to?: string }) => {
    const { settings, ...findings } = await settingsFor(command, 'migrate', context);
    const teardown = new Teardown();
    try {
      const { json, utc } = command.optsWithGlobals<GlobalOptions>();
      const logger = createLogger({ logLevel: 'warn', logFormat: settings.logFormat }, context.stderr, { utc });
      logWarnings(logger, findings);
      const to = options.to === undefined ? {} : { to: migrationNumber(options.to) };
      const { openDatabase } = await import('../open-database.js');
      const { applied } = await openDatabase(settings, { context, logger, teardown, ...to });
      if (json) printJson(context.stdout, { applied });
      else
        printLine(
          context.stdout,
          applied.length === 0 ? 'nothing to do' : applied.map((name) => `applied ${name}`).join('\n'),
        );
    } finally {
      await teardown.run();
    }
  });
}

function migrationNumber(text: string): number {
  if (/^\d{1,4}$/.test(text)) return Number(text);
  throw new UsageError(`--to: expected the number of a migration, got "${text}"`);
}
