/** The read-only commands: `queues`, `workers`, `servers`, `stats`. */
import {
  FINISHED_STATES,
  type Flow,
  type JobState,
  type Queue,
  type Server,
  type Stats,
  UNFINISHED_STATES,
  type Worker,
} from '@drover/protocol';
import type { Client } from '@drover/sdk';
import type { Command } from 'commander';
import { addSettingFlags, type CliContext } from '../context.js';
import { type Cell, formatFields, formatSpan, formatTable } from '../output.js';
import { shortIds } from '../short-ids.js';
import type { TextFormat } from '../text-format.js';
import { show, withClient } from '../with-client.js';

/** Shown also if no queue has such jobs. */
const USUAL_STATES: readonly JobState[] = ['ready', 'running', 'scheduled'];

export function addLookCommands(program: Command, context: CliContext): void {
  const add = <Value>(
    name: string,
    description: string,
    read: (client: Client) => Promise<Value>,
    toText: (value: Value, format: TextFormat) => string,
  ) => {
    const command = program.command(name).description(description);
    addSettingFlags(command, 'client').action(async () => {
      const value = await withClient(command, context, read);
      show(command, context, Array.isArray(value) ? { items: value } : value, (format) => toText(value, format));
    });
  };
  add('queues', 'Show every queue with its jobs by state.', (client) => client.queues(), queuesText);
  add('workers', 'Show every known worker.', (client) => client.workers(), workersText);
  add('servers', 'Show every known server.', (client) => client.servers(), serversText);
  add('stats', 'Show counts, rates and capacity.', (client) => client.stats(), statsText);
}

function queuesText(queues: readonly Queue[], { time }: TextFormat): string {
  if (queues.length === 0) return 'no queues';
  const states = UNFINISHED_STATES.filter(
    (state) => USUAL_STATES.includes(state) || queues.some(({ counts }) => (counts[state] ?? 0) > 0),
  );
  const rows = queues.map(({ name, counts, oldestReadyAt, lastHour }): Cell[] => [
    ...[name, sumOf(counts, UNFINISHED_STATES), ...states.map((state) => counts[state] ?? 0)],
    ...[lastHour.succeeded, lastHour.failed, lastHour.cancelled, time(oldestReadyAt)],
  ]);
  const headings = ['queue', 'unfinished', ...states, 'succeeded/h', 'failed/h', 'cancelled/h', 'oldest ready'];
  return formatTable(headings, rows);
}

function workersText(workers: readonly Worker[], { time }: TextFormat): string {
  if (workers.length === 0) return 'no workers';
  const ids = shortIds(workers.map(({ id }) => id));
  const rows = workers.map((worker, index): Cell[] => [
    ...[ids[index], worker.name, worker.state, worker.running, worker.slots],
    ...[worker.types.join(' '), worker.queues?.join(' ') ?? 'all'],
    ...[time(worker.startedAt), time(worker.lastBeatAt), worker.lastError],
  ]);
  const headings = ['id', 'worker', 'state', 'running', 'slots', 'types', 'queues', 'started', 'last beat', 'error'];
  const ended = workers.filter(({ state }) => state === 'resigned' || state === 'dead').length;
  const counts = ended === 0 ? `${workers.length} live` : `${workers.length - ended} live, ${ended} ended`;
  return `${formatTable(headings, rows)}\n${counts}`;
}

function serversText(servers: readonly Server[], { time }: TextFormat): string {
  if (servers.length === 0) return 'no servers';
  const rows = servers.map((server): Cell[] => [
    ...[server.address, server.state, server.workers, server.version, `${server.pid}@${server.host}`],
    ...[time(server.startedAt), time(server.lastBeatAt)],
  ]);
  return formatTable(['address', 'state', 'workers', 'version', 'process', 'started', 'last beat'], rows);
}

function statsText(stats: Stats, { time }: TextFormat): string {
  const { capacity, perSecond, counts } = stats;
  const flows: [string, Flow][] = [
    ['minute', stats.lastMinute],
    ['hour', stats.lastHour],
    ['day', stats.lastDay],
  ];
  const rows = flows.map(([span, flow]): Cell[] => [
    ...[span, flow.succeeded, flow.failed, flow.cancelled, flow.retried],
    ...[formatSpan(flow.waitMs), formatSpan(flow.runMs)],
  ]);
  const countsOf = (states: readonly JobState[]) => formatFields(states.map((state) => [state, counts[state] ?? 0]));
  return [
    `${sumOf(counts, UNFINISHED_STATES)} unfinished jobs at ${time(stats.countedAt)}`,
    countsOf(UNFINISHED_STATES),
    '',
    `${sumOf(counts, FINISHED_STATES)} finished jobs within the retention of the servers`,
    countsOf(FINISHED_STATES),
    '',
    formatFields([
      ['jobs/s', perSecond.finished.toFixed(1)],
      ['workers', `${capacity.workers} that take jobs`],
      ['servers', capacity.servers],
      ['slots', `${capacity.total}, ${capacity.free} free`],
    ]),
    '',
    formatTable(['last', 'succeeded', 'failed', 'cancelled', 'retried', 'wait', 'run'], rows),
  ].join('\n');
}

function sumOf(counts: Stats['counts'], states: readonly JobState[]): number {
  return states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}
