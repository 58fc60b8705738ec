/** The worker of the scenarios, built on the SDK as an application would be. */
import { createWorker, runWorker } from '@drover/sdk/worker';
import { jobs } from './jobs.mjs';

// The test that started us is gone.
process.on('disconnect', () => process.exit(1));

const { witness, types, ...options } = JSON.parse(process.env.WORKER_OPTIONS ?? '{}');
const offered = jobs.filter(({ type }) => types === undefined || types.includes(type));
const log = (level) => (fields, message) => process.stderr.write(`${JSON.stringify({ level, message, ...fields })}\n`);
const logger = { debug() {}, info: log('info'), warn: log('warn'), error: log('error') };
await runWorker(createWorker({ jobs: offered, logger, ...options }));
