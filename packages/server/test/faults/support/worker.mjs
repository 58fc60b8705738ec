/** The worker of the fault tests: notes every start and end of a handler outside the system, one write each. */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { defineJob } from '@drover/sdk';
import { createWorker, runWorker } from '@drover/sdk/worker';

const { name, urls, witness: path, journalDir } = JSON.parse(process.env.FAULTS_WORKER ?? '{}');
const witness = openSync(path, 'a');
const now = () => Number(process.hrtime.bigint() / 1000n) / 1000;
let executions = 0;

const work = defineJob({
  type: 'work',
  run: async ({ id, attempt, payload }) => {
    executions += 1;
    const number = executions;
    writeSync(witness, `s ${number} ${id} ${attempt} ${now()}\n`);
    if (payload.ms > 0) await delay(payload.ms);
    writeSync(witness, `e ${number} ${id} ${attempt} ${now()}\n`);
    return payload.number;
  },
});

const fails = defineJob({
  type: 'fails',
  maxAttempts: 1,
  run: () => {
    throw new Error('on purpose');
  },
  onFailure: ({ job, error }) => ({ failed: job.id, reason: error.message }),
});

process.on('disconnect', () => process.exit(1));
process.channel?.unref();
await runWorker(createWorker({ jobs: [work, fails], name, url: urls, slots: 5, journalDir }));
