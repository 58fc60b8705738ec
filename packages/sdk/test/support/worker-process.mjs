/**
 * A worker in a process of its own, on the built package, for what can only be seen from outside. The first
 * argument is JSON: `options` for createWorker, `ownsProcess` to run it as `drover worker` does, `hasLogger` to print all
 * that it logs.
 *
 * Every line it prints comes at once, also when its event loop is blocked.
 */
import { writeSync } from 'node:fs';
import { defineJob } from '@drover/sdk';
import { createWorker, runWorker } from '@drover/sdk/worker';
import { isolated } from './isolated-handler.mjs';

const { options, ownsProcess = true, hasLogger = true } = JSON.parse(process.argv[2]);

const say = (...words) => writeSync(1, `${words.join(' ')}\n`);

const behaviours = {
  echo: ({ payload }) => payload,
  /** Never lets the event loop turn again. */
  block: () => {
    for (;;);
  },
  /** Lets the event loop turn, but never ends. */
  ignore: () => new Promise(() => {}),
  log: ({ log }) => {
    log.debug('too much');
    log.info({ step: 2 }, 'from the handler');
  },
  /** Ends as soon as it is told to. */
  obey: ({ signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
};

const jobs = Object.entries(behaviours).map(([type, run]) =>
  defineJob({
    type,
    run: (context) => {
      say('started', type, context.id);
      context.signal.addEventListener('abort', () => say('aborted', type, context.signal.reason.code));
      return run(context);
    },
  }),
);

const log = (level) => (fields, message) => say(level, JSON.stringify(fields), message);
const logger = { debug() {}, info: log('info'), warn: log('warn'), error: log('error') };
const worker = createWorker({
  jobs: [...jobs, isolated],
  ...(hasLogger ? { logger } : {}),
  drainTimeout: 0,
  ...options,
});
if (ownsProcess) await runWorker(worker);
else await worker.start();
