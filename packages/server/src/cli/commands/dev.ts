/**
 * `drover dev`, which `npm start` runs: everything on one machine. Database, server and sample load belong to this
 * process; the worker is a separate process, as in production. Shutdown is in reverse order: the sample load stops,
 * the worker finishes its jobs, then the server and the database stop.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Client, createClient, type Stats } from '@drover/sdk';
import type { Command } from 'commander';
import { type Logger, pino } from 'pino';
import type { ConfiguredToken } from '../../config/server-config.js';
import { SETTINGS, type Settings } from '../../config/settings.js';
import { addSettingFlags, type CliContext, type GlobalOptions, settingsFor } from '../context.js';
import { createDevView, type DevView } from '../dev-view.js';
import { prettyLine } from '../logger.js';
import { runSampleLoad } from '../sample-load.js';
import { logWarnings } from '../setting-warnings.js';
import { runUntilStopped, type Teardown } from '../stop-signal.js';
import { safeJson } from '../terminal-text.js';
import { startWorkerProcess } from '../worker-process.js';

const SAMPLE_MODULE = fileURLToPath(new URL('../../sample/jobs.js', import.meta.url));
const DEFAULT_ADDRESS = `http://${SETTINGS.host.default}:${SETTINGS.port.default}`;
const REFRESH_MS = 1000;
/** With this many waiting jobs, more samples would show nothing new. */
const ENOUGH_WAITING = 200;

type DevOptions = { samples: boolean };

export function addDevCommand(program: Command, context: CliContext): void {
  const command = program
    .command('dev')
    .description('Run everything on this machine: embedded PostgreSQL, server, worker and sample jobs.')
    .option('--no-samples', 'add no sample jobs');
  addSettingFlags(command, 'dev').action(async (options: DevOptions) => {
    const { settings: given, ...findings } = await settingsFor(command, 'dev', context);
    const settings = { ...given, embedded: given.databaseUrl === undefined };
    const view = createDevView(context.stdout);
    const { utc = false } = command.optsWithGlobals<GlobalOptions>();
    const pretty = (line: string) => prettyLine(line, utc);
    const logger = pino(
      // The user watches the view, so the log only shows warnings and errors.
      { level: settings.logLevel === 'info' ? 'warn' : settings.logLevel },
      { write: (line) => view.print(settings.logFormat === 'json' ? safeJson(line.trimEnd()) : pretty(line)) },
    );
    logWarnings(logger, findings);
    await runUntilStopped(async ({ signal, teardown }) => {
      let isReady = false;
      teardown.add(async () => {
        if (isReady) view.print('Stopped. The data is kept.');
      });
      await startAll({ settings, options, context, view, pretty, logger, signal, teardown });
      isReady = true;
    });
  });
}

type DevParts = {
  settings: Settings;
  options: DevOptions;
  context: CliContext;
  view: DevView;
  /** A line of a log, as people read it. */
  pretty: (line: string) => string;
  logger: Logger;
  signal: AbortSignal;
  teardown: Teardown;
};

/** A worker that cannot start says why itself. */
const REGISTERED_WITHIN_MS = 10_000;
const LOOK_EVERY_MS = 100;

/** Jobs that are added by name need the types of the worker. */
async function untilRegistered(client: Client, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + REGISTERED_WITHIN_MS;
  while (!signal.aborted && performance.now() < deadline) {
    if ((await client.types()).length > 0) return;
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
  }
}

async function startAll(parts: DevParts): Promise<void> {
  const { settings, options, context, view, pretty, logger, signal, teardown } = parts;
  const startedAt = performance.now();
  view.print(settings.databaseUrl ? 'Starting on your PostgreSQL …' : `Starting PostgreSQL in ${settings.dataDir} …`);
  const token = randomBytes(24).toString('base64url');
  const own: ConfiguredToken = { name: `dev-${process.pid}`, role: 'admin', token };
  // Loaded only here: commands that just call a server start much faster without it.
  const { openServer } = await import('../open-server.js');
  const address = await openServer(settings, {
    ...{ context, logger, teardown, signal, ownTokens: [own] },
    openOnLoopback: true,
  });
  const { ca, cert, key } = settings;

  const worker = startWorkerProcess({
    module: SAMPLE_MODULE,
    url: address,
    token,
    tls: { ca, cert, key },
    drainTimeoutMs: settings.drainTimeout,
    logger,
    onLine: (line) => view.print(pretty(line)),
  });
  teardown.add(() => worker.stop());

  const client = createClient({ url: address, token, ca, cert, key });
  teardown.add(() => client.close());
  const watch = watchStats(client, logger, (stats) =>
    view.update({ stats, address, upMs: performance.now() - startedAt, hint: hintFor(address) }),
  );
  teardown.add(async () => watch.stop());
  await untilRegistered(client, signal);
  view.print(`Drover is ready at ${address}`);
  if (options.samples) {
    const samples = new AbortController();
    const isFull = () => watch.waiting() > ENOUGH_WAITING;
    const load = runSampleLoad({ client, logger, signal: samples.signal, isFull });
    teardown.add(async () => {
      samples.abort();
      await load;
    });
  }
  teardown.add(async () => {
    view.close();
    view.print('Stopping: the worker finishes its jobs …');
  });
}

function hintFor(address: string): string {
  const url = address === DEFAULT_ADDRESS ? '' : ` --url ${address}`;
  return `Try: npx drover job add hello '{"name":"Ada"}' --wait${url}`;
}

/** Reads the statistics repeatedly, one read at a time. */
function watchStats(client: Client, logger: Logger, onStats: (stats: Stats) => void) {
  let isStopped = false;
  let waiting = 0;
  let timer: NodeJS.Timeout | undefined;
  const look = async () => {
    try {
      const stats = await client.stats();
      waiting = (stats.counts.ready ?? 0) + (stats.counts.scheduled ?? 0);
      if (!isStopped) onStats(stats);
    } catch (error) {
      if (!isStopped) logger.warn({ event: 'figures.failed', err: error }, 'the figures could not be read');
    }
    if (!isStopped) timer = setTimeout(look, REFRESH_MS);
  };
  void look();
  return {
    waiting: () => waiting,
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
