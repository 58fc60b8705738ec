/** `drover types …`: the job types that workers have registered. */
import {
  formatDuration,
  JOB_OPTIONS,
  type JobOptionName,
  type JobType,
  type JobTypeWithSchema,
} from '@drover/protocol';
import type { Command } from 'commander';
import { addSettingFlags, type CliContext } from '../context.js';
import { type Cell, formatFields, formatTable, jsonText } from '../output.js';
import type { TextFormat } from '../text-format.js';
import { show, withClient } from '../with-client.js';

export function addTypeCommands(program: Command, context: CliContext): void {
  const types = program.command('types').description('Show every job type that a worker has registered.');
  addSettingFlags(types, 'client').action(async () => {
    const items = await withClient(types, context, (client) => client.types());
    show(types, context, { items }, (format) => typesText(items, format));
  });

  const one = types
    .command('show')
    .description('Show a job type with the JSON Schema of its payload.')
    .argument('<type>', 'job type');
  addSettingFlags(one, 'client').action(async (name: string) => {
    const found = await withClient(one, context, (client) => client.type(name));
    show(one, context, found, (format) => typeText(found, format));
  });

  const forget = types
    .command('forget')
    .description('Forget the definition of a job type that no live worker offers.')
    .argument('<type>', 'job type');
  addSettingFlags(forget, 'client').action(async (name: string) => {
    const forgotten = await withClient(forget, context, (client) => client.forgetType(name));
    show(forget, context, { forgotten }, () => `${name} ${forgotten ? 'is forgotten' : 'was not known'}`);
  });
}

function typesText(types: readonly JobType[], { time }: TextFormat): string {
  if (types.length === 0) return 'no job types; workers register theirs when they connect';
  const rows = types.map((type): Cell[] => [
    ...[type.type, type.workers, defaultsText(type.defaults), type.hasPayloadSchema ? 'checked' : null],
    ...[type.conflict ? 'workers differ' : null, time(type.definedAt)],
  ]);
  return formatTable(['type', 'workers', 'defaults', 'payload', 'conflict', 'defined'], rows);
}

function typeText(type: JobTypeWithSchema, { time }: TextFormat): string {
  const fields: [string, Cell][] = [
    ['type', type.type],
    ['workers', type.workers],
    ['first seen', time(type.firstSeenAt)],
    ['defined', time(type.definedAt)],
    ...Object.entries(type.defaults).map(([name, value]): [string, Cell] => [name, valueText(name, value)]),
    ['payload', jsonText(type.payloadSchema) ?? 'not checked'],
  ];
  if (!type.conflict) return formatFields(fields);
  const rows = type.definitions.map(({ hash, current, workers, names }): Cell[] => [
    ...[hash, current ? 'yes' : null, workers, names.join(' ')],
  ]);
  return `${formatFields(fields)}\n\n${formatTable(['definition', 'current', 'workers', 'names'], rows)}`;
}

function defaultsText(defaults: JobType['defaults']): string {
  return Object.entries(defaults)
    .map(([name, value]) => `${name}=${valueText(name, value)}`)
    .join(' ');
}

function valueText(name: string, value: unknown): string {
  const isDuration = name in JOB_OPTIONS && JOB_OPTIONS[name as JobOptionName].kind === 'duration';
  if (typeof value === 'number' && isDuration) return formatDuration(value);
  return typeof value === 'string' ? value : (jsonText(value) ?? '');
}
