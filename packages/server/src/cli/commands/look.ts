/** The read-only commands: `queues`, `workers`, `servers`, `stats`. */
import { ALL_STATES, type Flow, type Queue, type Server, type Stats, type Worker } from '@drover/protocol';
import type { Client } from '@drover/sdk';
import type { Command } from 'commander';
import { addSettingFlags, type CliContext } from '../context.js';
import { type Cell, formatFields, formatSpan, formatTable, formatTime } from '../output.js';
import { show, withClient } from '../with-client.js';

export function addLookCommands(program: Command, context: CliContext): void {
  const add = <Value>(
    name: string,
    description: string,
    read: (client: Client) => Promise<Value>,
    toText: (value: Value) => string,
  ) => {
    const command = program.command(name).description(description);
    addSettingFlags(command, 'client').action(async () => {
      const value = await withClient(command, context, read);
      show(command, context, Array.isArray(value) ? { items: value } : value, () => toText(value));
    });
  };
  add('queues', 'Show every queue with its jobs by state.', (client) => client.queues(), queuesText);
  add('workers', 'Show every known worker.', (client) => client.workers(), workersText);
  add('servers', 'Show every known server.', (client) => client.servers(), serversText);
  add('stats', 'Show counts, rates and capacity.', (client) => client.stats(), statsText);
}

function queuesText(queues: readonly Queue[]): string {
  if (queues.length === 0) return 'no queues';
  const rows = queues.map(({ name, counts, oldestReadyAt, lastHour }): Cell[] => [
    ...[name, counts.ready ?? 0, counts.running ?? 0, counts.scheduled ?? 0],
    ...[lastHour.succeeded, lastHour.failed, formatTime(oldestReadyAt)],
  ]);
  return formatTable(['queue', 'ready', 'running', 'scheduled', 'succeeded/h', 'failed/h', 'oldest ready'], rows);
}

function workersText(workers: readonly Worker[]): string {
  if (workers.length === 0) return 'no workers';
  const rows = workers.map((worker): Cell[] => [
    ...[
      worker.name,
      worker.state,
      worker.running,
      worker.slots,
      worker.types.join(' '),
      worker.queues?.join(' ') ?? 'all',
    ],
    ...[formatTime(worker.startedAt), formatTime(worker.lastBeatAt), worker.lastError],
  ]);
  return formatTable(['worker', 'state', 'running', 'slots', 'types', 'queues', 'started', 'last beat', 'error'], rows);
}

function serversText(servers: readonly Server[]): string {
  if (servers.length === 0) return 'no servers';
  const rows = servers.map((server): Cell[] => [
    ...[server.address, server.state, server.workers, server.version, `${server.pid}@${server.host}`],
    ...[formatTime(server.startedAt), formatTime(server.lastBeatAt)],
  ]);
  return formatTable(['address', 'state', 'workers', 'version', 'process', 'started', 'last beat'], rows);
}

function statsText(stats: Stats): string {
  const { capacity, perSecond } = stats;
  const counts = ALL_STATES.map((state): [string, number] => [state, stats.counts[state] ?? 0]);
  const flows: [string, Flow][] = [
    ['minute', stats.lastMinute],
    ['hour', stats.lastHour],
    ['day', stats.lastDay],
  ];
  const rows = flows.map(([span, flow]): Cell[] => [
    ...[span, flow.succeeded, flow.failed, flow.cancelled, flow.retried],
    ...[formatSpan(flow.waitMs), formatSpan(flow.runMs)],
  ]);
  return [
    formatFields(counts),
    '',
    formatFields([
      ['jobs/s', perSecond.finished.toFixed(1)],
      ['workers', capacity.workers],
      ['servers', capacity.servers],
      ['slots', `${capacity.total}, ${capacity.free} free`],
    ]),
    '',
    formatTable(['last', 'succeeded', 'failed', 'cancelled', 'retried', 'wait', 'run'], rows),
  ].join('\n');
}
