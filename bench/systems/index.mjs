/**
 * Every system that is measured. An adapter (`file`) has:
 *
 *   bulk                          { size, inFlight }: the batches that add many jobs fastest
 *   prepare(context)              in the orchestrator, once per fresh store: schema, queue (optional)
 *   startServer(context)          in the orchestrator: the system's own server process, { pid, stop } (optional)
 *   openProducer(context)         in the producer process: { addOne(payload), addMany(payloads, dueAt?), close() }
 *   openWorker(context, handle)   in the worker process: { stop() }; calls handle(payload) for each job
 *   openStore(context)            in the orchestrator: { unfinished(), close() }; unfinished() asks the store itself
 *
 * The context names the store (`databaseUrl` or `redisPort`) and the aim: `throughput`, or `latency` for the
 * systems whose own advice differs for it. How each peer is set up follows its documentation and a sweep over the
 * settings on a quiet machine; the comments in the adapters say which ones mattered.
 *
 * `volume` shrinks the number of jobs for a system that is so slow that the full number only costs time.
 * `onlyByName` leaves a system out of runs that do not name it.
 * `durable` systems keep an acknowledged job over a power cut; only they count as the peer to beat.
 */
const FILES = {
  drover: './drover.mjs',
  'drover-unguarded': './drover.mjs',
  graphile: './graphile.mjs',
  pgboss: './pgboss.mjs',
  'bullmq-pg': './bullmq-pg.mjs',
  bullmq: './bullmq.mjs',
  'bee-queue': './bee-queue.mjs',
};

export const SYSTEMS = [
  { name: 'drover', store: 'postgres', durable: true, volume: 1 },
  { name: 'drover-unguarded', store: 'postgres', durable: true, volume: 1, onlyByName: true },
  { name: 'graphile', store: 'postgres', durable: true, volume: 1 },
  { name: 'pgboss', store: 'postgres', durable: true, volume: 1 },
  { name: 'bullmq-pg', store: 'postgres', durable: true, volume: 0.2 },
  { name: 'bullmq@always', store: 'redis', fsync: 'always', durable: true, volume: 1 },
  { name: 'bullmq@everysec', store: 'redis', fsync: 'everysec', durable: false, volume: 1 },
  { name: 'bee-queue@always', store: 'redis', fsync: 'always', durable: true, volume: 1 },
  { name: 'bee-queue@everysec', store: 'redis', fsync: 'everysec', durable: false, volume: 1 },
];

/** `bullmq` selects both of its settings, `bullmq@always` one. */
export function selectSystems(names) {
  if (names === undefined) return SYSTEMS.filter((system) => !system.onlyByName);
  const unknown = names.filter((name) => !SYSTEMS.some((system) => matches(system, name)));
  if (unknown.length > 0) {
    throw new Error(`unknown system ${unknown.join(', ')}; known: ${SYSTEMS.map((system) => system.name).join(', ')}`);
  }
  return SYSTEMS.filter((system) => names.some((name) => matches(system, name)));
}

export async function loadSystem(name) {
  const { adapter } = await import(FILES[name.split('@')[0]]);
  return adapter;
}

function matches(system, name) {
  return system.name === name || system.name.split('@')[0] === name;
}
