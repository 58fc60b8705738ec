/**
 * Every workload, in the order of the run. One has an `id`, `run(stage)` that gives `{ metrics, … }`, and optionally
 * `warmUp(stage)` (the same work, for what comes before it is measured), an `aim` (which configuration of a peer) and
 * `systems` (who is measured at all). What else `run` gives is kept with the raw samples.
 */
import { largeBacklog } from './backlog.mjs';
import { connectedWorkers } from './connected.mjs';
import { drainBacklog } from './drain.mjs';
import { dueAtOnce } from './due-at-once.mjs';
import { bulkProducer, singleProducer } from './end-to-end.mjs';
import { enqueueBulk, enqueueInFlight, enqueueSequential } from './enqueue.mjs';
import { history } from './history.mjs';
import { idle } from './idle.mjs';
import { startLatency } from './latency.mjs';

const WORKLOADS = [
  enqueueSequential,
  enqueueInFlight,
  enqueueBulk,
  drainBacklog,
  bulkProducer,
  singleProducer,
  startLatency,
  dueAtOnce,
  idle,
  connectedWorkers,
  largeBacklog,
  history,
];

/** h is read off the drain. */
const PART_OF = { h: 'd' };

export function selectWorkloads(ids) {
  if (ids === undefined) return WORKLOADS;
  const wanted = ids.map((id) => PART_OF[id] ?? id);
  const known = WORKLOADS.map((workload) => workload.id);
  const unknown = wanted.filter((id) => !known.includes(id));
  if (unknown.length > 0) throw new Error(`unknown workload ${unknown.join(', ')}; known: ${known.join(', ')}, h`);
  return WORKLOADS.filter((workload) => wanted.includes(workload.id));
}
