/** `drover pause …`, `drover resume …` and `drover pauses`: pause and resume the start of jobs. */
import type { Pause } from '@drover/protocol';
import type { Client, PauseTarget } from '@drover/sdk';
import type { Command } from 'commander';
import { addSettingFlags, type CliContext } from '../context.js';
import { type Cell, formatTable } from '../output.js';
import { findId } from '../short-ids.js';
import type { TextFormat } from '../text-format.js';
import { show, withClient } from '../with-client.js';

/** What can be paused, and its name on the command line. */
const TARGETS: readonly {
  name: string;
  argument?: string;
  target: (argument: string, client: Client) => PauseTarget | Promise<PauseTarget>;
}[] = [
  { name: 'queue', argument: '<name>', target: (queue) => ({ queue }) },
  { name: 'type', argument: '<name>', target: (type) => ({ type }) },
  { name: 'worker', argument: '<id>', target: async (id, client) => ({ worker: await findId(client, 'worker', id) }) },
  { name: 'cluster', target: () => ({ cluster: true }) },
];

export function addPauseCommands(program: Command, context: CliContext): void {
  const pause = program
    .command('pause')
    .description('Start no more jobs of a queue, of a type, on a worker, or at all.');
  const resume = program.command('resume').description('Start jobs again.');
  for (const { name, argument, target } of TARGETS) {
    const pauseOne = pause.command(name).description(`Pause a ${name}; running jobs continue.`);
    if (argument) pauseOne.argument(argument);
    pauseOne.option('--note <text>', 'why, for those who wonder');
    addSettingFlags(pauseOne, 'client').action(async (...given: unknown[]) => {
      const named = argument ? String(given[0]) : '';
      const { note } = pauseOne.opts<{ note?: string }>();
      await withClient(pauseOne, context, async (client) => client.pause(await target(named, client), { note }));
      show(pauseOne, context, { paused: true }, () => `${name} ${named} is paused`.replace('  ', ' '));
    });

    const resumeOne = resume.command(name).description(`Resume a ${name}.`);
    if (argument) resumeOne.argument(argument);
    addSettingFlags(resumeOne, 'client').action(async (...given: unknown[]) => {
      const named = argument ? String(given[0]) : '';
      await withClient(resumeOne, context, async (client) => client.resume(await target(named, client)));
      show(resumeOne, context, { paused: false }, () => `${name} ${named} is resumed`.replace('  ', ' '));
    });
  }
  const pauses = program.command('pauses').description('Show what is paused, by whom and why.');
  addSettingFlags(pauses, 'client').action(async () => {
    const items = await withClient(pauses, context, (client) => client.pauses());
    show(pauses, context, { items }, (format) => pausesText(items, format));
  });
}

function pausesText(pauses: readonly Pause[], { time }: TextFormat): string {
  if (pauses.length === 0) return 'nothing is paused';
  const rows = pauses.map(({ scope, name, pausedBy, pausedAt, note }): Cell[] => [
    scope,
    name,
    pausedBy,
    time(pausedAt),
    note,
  ]);
  return formatTable(['scope', 'name', 'by', 'since', 'note'], rows);
}
