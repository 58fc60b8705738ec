/** Starts the worker of a command. */
import type { RunnableJob } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.js';
import type { Teardown } from './stop-signal.js';

export type OpenWorkerOptions = {
  jobs: readonly RunnableJob[];
  url: readonly string[];
  token: string | undefined;
  logger: Logger;
  teardown: Teardown;
  signal: AbortSignal;
};

/** Resolves once the worker is registered. Waits for a server that is not running yet. */
export async function openWorker(
  settings: Pick<
    Settings,
    | 'ca'
    | 'cert'
    | 'key'
    | 'slots'
    | 'queues'
    | 'workerName'
    | 'prefetch'
    | 'drainTimeout'
    | 'ignorePause'
    | 'journalDir'
    | 'discardDamagedJournal'
    | 'onLeaseLost'
  >,
  options: OpenWorkerOptions,
): Promise<void> {
  const { jobs, url, token, logger, teardown, signal } = options;
  const { slots, workerName: name, journalDir, queues, prefetch, drainTimeout, ...rest } = settings;
  const { ignorePause, discardDamagedJournal, onLeaseLost, ca, cert, key } = rest;
  const worker = createWorker({
    ...{ jobs, url, token, ca, cert, key, logger, slots, queues, name, prefetch, drainTimeout },
    ...{ ignorePause, journalDir, discardDamagedJournal, onLeaseLost },
  });
  teardown.add(async () => {
    if (!(await worker.stop())) throw new Error('some handlers did not end; their jobs will be recovered');
  });
  await worker.start({ signal });
  logger.info({ event: 'worker.ready', types: jobs.map(({ type }) => type), slots, url }, 'worker is ready');
}
