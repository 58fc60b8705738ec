/** `drover node`: a server and, with `--worker`, a worker in one process. Several equal nodes form a cluster. */
import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import type { ConfiguredToken } from '../../config/server-config.js';
import { addSettingFlags, type CliContext, settingsFor } from '../context.js';
import { loadJobs } from '../load-jobs.js';
import { createLogger } from '../logger.js';
import { openWorker } from '../open-worker.js';
import { logWarnings } from '../setting-warnings.js';
import { runUntilStopped } from '../stop-signal.js';

export function addNodeCommand(program: Command, context: CliContext): void {
  const command = program
    .command('node')
    .description('Run a server and a worker in one process.')
    .option('--worker <module>', 'the module whose jobs to run; without it there is only a server');
  addSettingFlags(command, 'node').action(async (options: { worker?: string }) => {
    const { settings, ...findings } = await settingsFor(command, 'node', context);
    const logger = createLogger(settings, context.stderr, command.optsWithGlobals());
    logWarnings(logger, findings);
    const jobs = options.worker === undefined ? [] : await loadJobs(options.worker, context.cwd);
    const token = randomBytes(24).toString('base64url');
    const own: ConfiguredToken = { name: `node-${process.pid}`, role: 'worker', token };
    // Loaded only here: commands that just call a server start much faster without it.
    const { openServer } = await import('../open-server.js');
    await runUntilStopped(async ({ signal, teardown }) => {
      const address = await openServer(settings, { context, logger, teardown, signal, ownTokens: [own] });
      if (jobs.length > 0) await openWorker(settings, { jobs, url: [address], token, logger, teardown, signal });
      logger.info({ event: 'node.ready', address, jobTypes: jobs.length }, 'node is ready');
    });
    logger.info({ event: 'node.stopped' }, 'node has stopped');
  });
}
