/** `drover worker <module>`: runs the jobs of a module until it is stopped, then lets running jobs finish. */
import type { Command } from 'commander';
import { addSettingFlags, type CliContext, settingsFor } from '../context.js';
import { loadJobs } from '../load-jobs.js';
import { createLogger } from '../logger.js';
import { openWorker } from '../open-worker.js';
import { logWarnings } from '../setting-warnings.js';
import { runUntilStopped } from '../stop-signal.js';

export function addWorkerCommand(program: Command, context: CliContext): void {
  const command = program
    .command('worker')
    .description('Run a worker with the jobs that a module exports (JavaScript or TypeScript).')
    .argument('<module>', 'path of the module');
  addSettingFlags(command, 'worker').action(async (modulePath: string) => {
    const { settings, ...findings } = await settingsFor(command, 'worker', context);
    const logger = createLogger(settings, context.stderr, command.optsWithGlobals());
    logWarnings(logger, findings);
    const jobs = await loadJobs(modulePath, context.cwd);
    await runUntilStopped(async ({ signal, teardown }) => {
      const { url, token } = settings;
      await openWorker(settings, { jobs, url, token, logger, teardown, signal });
    });
    logger.info({ event: 'worker.stopped' }, 'worker has stopped');
  });
}
