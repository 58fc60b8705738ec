/** Collects the evidence of a run from its folder, its database and its own records. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { readEndings, readGrants } from './audit.js';
import { type Evidence, processKey } from './evidence.js';
import { readJobs } from './jobs.js';
import { readJournals } from './journals.js';
import { readLedger } from './ledger.js';
import { readSchedules } from './schedules.js';
import { readWitness } from './witness.js';

/** What the run observed itself. */
export type Observed = Pick<
  Evidence,
  | 'verdicts'
  | 'repairs'
  | 'instances'
  | 'units'
  | 'databaseTroubles'
  | 'faults'
  | 'recovery'
  | 'assault'
  | 'drained'
  | 'leaseMs'
  | 'verdictMs'
>;

export async function readEvidence(folder: string, pool: pg.Pool, observed: Observed): Promise<Evidence> {
  const { instances } = observed;
  const jobs = await readJobs(pool);
  const executions = await readWitness(join(folder, 'witness'), instances);
  return {
    ...observed,
    jobs,
    jobById: new Map(jobs.map((job) => [job.id, job])),
    instanceByProcess: new Map(instances.map((instance) => [processKey(instance), instance])),
    executions,
    executionByName: new Map([...executions.values()].flat().map((execution) => [execution.name, execution])),
    ledger: await readLedger(join(folder, 'ledger.log')),
    grants: await readGrants(pool),
    endings: await readEndings(pool),
    journals: readJournals(join(folder, 'journals'), instances),
    schedules: await readSchedules(pool),
    serverLog: readdirSync(join(folder, 'logs'))
      .filter((file) => file.startsWith('server'))
      .flatMap((file) => linesOf(join(folder, 'logs', file))),
    databaseLog: linesOf(join(folder, 'database', 'server.log')),
  };
}

function linesOf(path: string): string[] {
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
}
