/** Calls a running server from a command. */
import { type Client, createClient, type Logger } from '@drover/sdk';
import type { Command } from 'commander';
import { type CliContext, type GlobalOptions, settingsFor } from './context.js';
import { printJson, printLine } from './output.js';
import { warningTexts } from './setting-warnings.js';
import { formatTime, type TextFormat } from './text-format.js';

/** Short, because a person waits for the answer. */
const TIMEOUT = '10s';
const RETRIES = 2;

export async function withClient<Value>(
  command: Command,
  context: CliContext,
  work: (client: Client) => Promise<Value>,
): Promise<Value> {
  const { settings, ...findings } = await settingsFor(command, 'client', context);
  for (const message of warningTexts(findings)) warn(command, context, message);
  const { url, token, ca, cert, key } = settings;
  const logger: Logger = {
    ...{ debug() {}, info() {} },
    warn: (_, message) => warn(command, context, message),
    error: (_, message) => warn(command, context, message),
  };
  const client = createClient({ url, token, ca, cert, key, logger, timeout: TIMEOUT, retries: RETRIES });
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

function warn(command: Command, context: CliContext, message: string): void {
  if (command.optsWithGlobals<GlobalOptions>().json) printJson(context.stderr, { warning: { message } });
  else printLine(context.stderr, `drover: ${message}`);
}

/** Prints an answer in the requested format. */
export function show(
  command: Command,
  context: CliContext,
  value: unknown,
  toText: (format: TextFormat) => string,
): void {
  const { json, utc = false } = command.optsWithGlobals<GlobalOptions>();
  if (json) printJson(context.stdout, value);
  else printLine(context.stdout, toText(textFormat(context, utc)));
}

function textFormat({ stdout }: CliContext, utc: boolean): TextFormat {
  return { time: (time) => formatTime(time, utc), columns: stdout.isTTY ? stdout.columns : undefined };
}
