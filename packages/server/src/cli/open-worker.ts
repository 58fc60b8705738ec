/** Starts the worker of a command. */
import { createWorker, type JobHandler } from '@drover/sdk/worker';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.js';
import type { Teardown } from './stop-signal.js';

export type OpenWorkerOptions = {
  handlers: readonly JobHandler[];
  url: readonly string[];
  token: string | undefined;
  logger: Logger;
  teardown: Teardown;
  signal: AbortSignal;
};

/** Returns once the worker is registered. A server that is not there yet is waited for. */
export async function openWorker(
  settings: Pick<
    Settings,
    | 'slots'
    | 'queues'
    | 'workerName'
    | 'prefetch'
    | 'drainTimeout'
    | 'ignorePause'
    | 'journalDir'
    | 'discardDamagedJournal'
    | 'selfDestruct'
  >,
  options: OpenWorkerOptions,
): Promise<void> {
  const { handlers, url, token, logger, teardown, signal } = options;
  const { slots, workerName: name, journalDir: dataDir, queues, prefetch, drainTimeout, ...rest } = settings;
  const { ignorePause, discardDamagedJournal, selfDestruct } = rest;
  const worker = createWorker({
    ...{ handlers, url, token, logger, slots, queues, name, prefetch, drainTimeout },
    ...{ ignorePause, dataDir, discardDamagedJournal, selfDestruct },
  });
  teardown.add(async () => {
    if (!(await worker.stop())) throw new Error('some handlers did not end; their jobs will be recovered');
  });
  await worker.start({ signal });
  logger.info({ types: handlers.map(({ definition }) => definition.type), slots, url }, 'worker is ready');
}
