/**
 * The logger that the SDK needs. A pino logger fits. Without one, warnings and errors go to stderr, and what handlers say
 * at `info` too: it is the application's own.
 */

export type LogFields = Record<string, unknown>;

export type Logger = {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
};

/** Writes one JSON line per warning and error, so that a fresh installation shows serious problems. */
export const stderrLogger: Logger = {
  debug() {},
  info() {},
  warn(fields, message) {
    writeLine('warn', fields, message);
  },
  error(fields, message) {
    writeLine('error', fields, message);
  },
};

/** For the log of handlers. */
export const stderrHandlerLogger: Logger = {
  ...stderrLogger,
  info(fields, message) {
    writeLine('info', fields, message);
  },
};

function writeLine(level: string, fields: LogFields, message: string): void {
  const time = new Date().toISOString();
  process.stderr.write(`${JSON.stringify({ time, level, ...fields, message }, showErrors)}\n`);
}

function showErrors(_key: string, value: unknown): unknown {
  if (value instanceof Error) return value.stack ?? String(value);
  return typeof value === 'bigint' ? String(value) : value;
}
