/** All commands of `drover`, and the handling of their errors. */
import { Command, CommanderError } from 'commander';
import { VERSION } from '../version.js';
import { addAuditCommand } from './commands/audit.js';
import { addDevCommand } from './commands/dev.js';
import { addJobCommands } from './commands/job.js';
import { addMigrateCommand } from './commands/migrate.js';
import { addNodeCommand } from './commands/node.js';
import { addLookCommands } from './commands/overview.js';
import { addPauseCommands } from './commands/pause.js';
import { addScheduleCommands } from './commands/schedule.js';
import { addServerCommand } from './commands/server.js';
import { addTokenCommands } from './commands/token.js';
import { addTypeCommands } from './commands/types.js';
import { addWorkerCommand } from './commands/worker.js';
import type { CliContext } from './context.js';
import { describeError, EXIT_CODES, exitNameOf } from './exit-codes.js';
import { printJson, printLine } from './output.js';
import { safeLines } from './terminal-text.js';

/** Runs one command line and returns the exit code. */
export async function runCli(args: readonly string[], context: CliContext): Promise<number> {
  const program = createProgram(context);
  try {
    await program.parseAsync(args, { from: 'user' });
    return EXIT_CODES.ok.code;
  } catch (error) {
    const name = exitNameOf(error);
    // Commander has already printed its own help and errors.
    if (!(error instanceof CommanderError)) reportError(error, args.includes('--json'), context);
    return EXIT_CODES[name].code;
  }
}

export function createProgram(context: CliContext): Command {
  const program = new Command('drover')
    .description('Distributed jobs on PostgreSQL alone.')
    .version(VERSION, '-V, --version', 'print the version')
    .option('--json', 'print JSON for programs instead of text for people')
    .option('--utc', 'print times in UTC instead of the time zone of this machine')
    .option('--config <file>', 'configuration file, JSON or a module [drover.config.json] (DROVER_CONFIG)')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => context.stdout.write(safeLines(text)),
      writeErr: (text) => context.stderr.write(safeLines(text)),
    })
    .showSuggestionAfterError()
    .showHelpAfterError('(--help shows what is possible)')
    .addHelpText('after', exitCodeHelp)
    .exitOverride();
  addDevCommand(program, context);
  addServerCommand(program, context);
  addWorkerCommand(program, context);
  addNodeCommand(program, context);
  addMigrateCommand(program, context);
  addJobCommands(program, context);
  addScheduleCommands(program, context);
  addLookCommands(program, context);
  addTypeCommands(program, context);
  addPauseCommands(program, context);
  addTokenCommands(program, context);
  addAuditCommand(program, context);
  return program;
}

function exitCodeHelp(): string {
  const lines = Object.values(EXIT_CODES).map(({ code, meaning }) => `  ${code}  ${meaning}`);
  return `\nExit codes:\n${lines.join('\n')}`;
}

function reportError(error: unknown, asJson: boolean, context: CliContext): void {
  const message = describeError(error);
  const code = error instanceof Error && 'code' in error ? String(error.code) : exitNameOf(error);
  if (asJson) printJson(context.stderr, { error: { code, message } });
  else printLine(context.stderr, `drover: ${message}`);
}
