/**
 * After the faults: every server that should be alive answers, reports that it is healthy, and knows every worker
 * that should be alive; and every worker completes a job that only it offers, added through every server.
 */
import { newId } from '@drover/protocol';
import { createClient } from '@drover/sdk';
import { nowMs } from './clock.js';
import type { RecoveryCheck } from './evidence/evidence.js';
import { isAnswering } from './faults/nemesis.js';
import { createLedgerWriter } from './load/ledger-writer.js';
import { optionsOf, type PlannedJob } from './load/mix.js';
import type { Unit } from './system/units.js';

const WITHIN = '30s';

export async function checkRecovery(alive: readonly Unit[], ledgerPath: string): Promise<RecoveryCheck[]> {
  const servers = alive.filter(({ role }) => role === 'server');
  const workers = alive.filter(({ role }) => role === 'worker');
  const checks: RecoveryCheck[] = alive.map(({ name, isAlive }) => ({ what: `${name} is not alive`, ok: isAlive }));
  for (const server of servers) checks.push(...(await checkServer(server, workers, ledgerPath)));
  return checks;
}

async function checkServer(server: Unit, workers: readonly Unit[], ledgerPath: string): Promise<RecoveryCheck[]> {
  const answers = await isAnswering(server);
  const checks: RecoveryCheck[] = [{ what: `${server.name} does not answer`, ok: answers }];
  if (!answers) return checks;
  const health = await fetch(`${server.url}/api/deep_ping`, { signal: AbortSignal.timeout(10_000) });
  const { status } = (await health.json()) as { status: string };
  checks.push({ what: `${server.name} says that its health is ${status}`, ok: status === 'okay' });
  const client = createClient({ url: server.url, timeout: WITHIN });
  try {
    const probes = workers.map(async ({ name }) => {
      const ok = await completesJob(client, name, ledgerPath);
      return { what: `${name} completed no job that was added through ${server.name} within ${WITHIN}`, ok };
    });
    checks.push(...(await Promise.all(probes)));
    const known = (await client.workers()).filter(({ state }) => state === 'waiting' || state === 'working');
    for (const { name } of workers) {
      const isKnown = known.some((worker) => worker.name === name);
      checks.push({ what: `${server.name} does not list ${name} as alive`, ok: isKnown });
    }
  } finally {
    await client.close();
  }
  return checks;
}

async function completesJob(
  client: ReturnType<typeof createClient>,
  worker: string,
  ledgerPath: string,
): Promise<boolean> {
  const job: PlannedJob = { id: newId(), type: `probe.${worker}`, payload: {} };
  const sentAt = nowMs();
  try {
    await client.enqueue(job.type, job.payload, optionsOf(job, Date.now()));
    createLedgerWriter(ledgerPath).added([job], 'acknowledged', 'plant', sentAt);
    await client.job(job.id).result({ timeout: WITHIN });
    return true;
  } catch {
    // any error is the finding
    return false;
  }
}
