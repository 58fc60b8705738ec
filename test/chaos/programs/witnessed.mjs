/**
 * Handlers whose every start and end is one line, written by one call to a file outside the system under test: it needs no
 * network, so it works in a partition, and a line that was begun is whole. The lines are explained in evidence/witness.ts.
 */
import { createHash } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { defineJob, handle } from '@drover/sdk';

export const options = JSON.parse(process.env.CHAOS_WORKER ?? '{}');
const witness = openSync(options.witness, 'a');
let executions = 0;

export const now = () => process.hrtime.bigint() / 1000n;
export const note = (...words) => writeSync(witness, `${words.join(' ')}\n`);

/** A value that `run` gives as `children` is a list of ids; `snooze` says that the handler asked to be run later. */
export function witnessed(definition, run, { module } = {}) {
  const made = typeof definition === 'string' ? defineJob({ type: definition }) : definition;
  const witnessedRun = async (job) => {
    executions += 1;
    const execution = `${options.instance}:${process.pid}:${executions}`;
    const hash = createHash('md5').update(JSON.stringify(job.payload)).digest('hex');
    const occurrence = job.occurrence ? `${job.occurrence.schedule}@${job.occurrence.nominalAt}` : '-';
    note('s', execution, job.id, job.attempt, job.fence, made.type, hash, occurrence, now());
    let end = 'ok';
    try {
      const { children, snooze, ...more } = (await run(job, execution)) ?? {};
      if (children) note('c', execution, ...children);
      if (snooze) {
        end = 'snooze';
        return snooze;
      }
      return { execution, ...more };
    } catch (error) {
      end = job.signal.aborted ? `abort:${codeOf(job.signal.reason)}` : 'error';
      throw error;
    } finally {
      note('e', execution, end, now());
    }
  };
  return handle(made, witnessedRun, module ? { module } : undefined);
}

function codeOf(reason) {
  return reason?.name === 'TimeoutError' ? 'timeout' : (reason?.code ?? reason?.name);
}
