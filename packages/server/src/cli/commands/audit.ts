/** `drover audit`: who has changed what. */
import { type AuditEntry, listAuditQuery } from '@drover/protocol';
import type { Command } from 'commander';
import { checkedInput } from '../checked-input.js';
import { addSettingFlags, type CliContext } from '../context.js';
import { type Cell, formatTable, jsonText } from '../output.js';
import type { TextFormat } from '../text-format.js';
import { show, withClient } from '../with-client.js';

type Filters = Partial<Record<keyof typeof listAuditQuery.shape, string>> & { id?: string };

export function addAuditCommand(program: Command, context: CliContext): void {
  const command = program
    .command('audit')
    .description('Show who has changed what, latest first. Needs the role auditor.')
    .option('--principal <name>', 'only by this token or certificate')
    .option('--id <id>', 'only by the token with this id')
    .option('--action <route>', 'only this, such as cancelJob')
    .option('--target <target>', 'only about this job, schedule, token or "queue NAME"')
    .option('--outcome <outcome>', 'only done or denied')
    .option('--from <time>', 'at or after')
    .option('--to <time>', 'before')
    .option('--limit <number>', 'how many, 1 to 1000')
    .option('--cursor <cursor>', 'continue after the last page');
  addSettingFlags(command, 'client').action(async (flags: Filters) => {
    const { principal, id, action, target, outcome, from, to, limit, cursor } = flags;
    const given = { principal, token: id, action, target, outcome, from, to, limit, cursor };
    const filter = checkedInput(listAuditQuery, given);
    const page = await withClient(command, context, (client) => client.audit(filter));
    show(command, context, page, (format) => auditText(page.items, page.nextCursor, format));
  });
}

function auditText(entries: readonly AuditEntry[], nextCursor: string | null, { time }: TextFormat): string {
  if (entries.length === 0) return 'no entries';
  const rows = entries.map((entry): Cell[] => [
    ...[time(entry.at), entry.action, entry.target, entry.principal, entry.address, entry.outcome],
    ...[jsonText(entry.before), jsonText(entry.after)],
  ]);
  const table = formatTable(['at', 'action', 'target', 'by', 'address', 'outcome', 'before', 'after'], rows);
  return nextCursor === null ? table : `${table}\nmore: --cursor ${nextCursor}`;
}
