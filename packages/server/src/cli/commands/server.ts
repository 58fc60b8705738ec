/** `drover server`: one server until it is stopped. */
import type { Command } from 'commander';
import { addSettingFlags, type CliContext, settingsFor } from '../context.js';
import { createLogger } from '../logger.js';
import { logWarnings } from '../setting-warnings.js';
import { runUntilStopped } from '../stop-signal.js';

export function addServerCommand(program: Command, context: CliContext): void {
  const command = program.command('server').description('Run a server: HTTP API and dispatch of jobs to workers.');
  addSettingFlags(command, 'server').action(async () => {
    const { settings, ...findings } = await settingsFor(command, 'server', context);
    const logger = createLogger(settings, context.stderr, command.optsWithGlobals());
    logWarnings(logger, findings);
    // Loaded only here: commands that just call a server start much faster without it.
    const { openServer } = await import('../open-server.js');
    await runUntilStopped(async ({ signal, teardown }) => {
      const address = await openServer(settings, { context, logger, teardown, signal });
      logger.info({ event: 'server.ready', address }, 'server is ready');
    });
    logger.info({ event: 'server.stopped' }, 'server has stopped');
  });
}
