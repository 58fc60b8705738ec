/**
 * Handlers that write every start and end as one line, in one call, to a file outside the system under test. It needs
 * no network, so it works in a partition, and every line is complete. The lines are explained in evidence/witness.ts.
 */
import { createHash } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { defineJob, handle } from '@drover/sdk';

export const options = JSON.parse(process.env.CHAOS_WORKER ?? '{}');
const witness = openSync(options.witness, 'a');
let executions = 0;

export const now = () => process.hrtime.bigint() / 1000n;
export const note = (...words) => writeSync(witness, `${words.join(' ')}\n`);

/** `children` that `run` returns is a list of ids. `snooze` means that the handler asked to run later. */
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
