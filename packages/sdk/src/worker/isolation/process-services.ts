/**
 * What a handler's context needs from its worker, from inside the isolated process: log lines and progress go over
 * the channel. Both are bounded: while the channel is full, log lines are counted and dropped, and only the latest
 * progress value waits.
 */
import type { LogFields, Logger } from '../../logger.js';
import type { Attempt } from '../attempt.js';
import type { ContextServices } from '../attempt-context.js';
import type { Envelope, FromProcess } from './messages.js';

const PROGRESS_EVERY_MS = 50;
/** Characters of one log line's fields. */
const MAX_FIELDS_LENGTH = 64 * 1024;

export class ProcessServices implements ContextServices {
  readonly logger: Logger = {
    debug: (fields, message) => this.#log('debug', fields, message),
    info: (fields, message) => this.#log('info', fields, message),
    warn: (fields, message) => this.#log('warn', fields, message),
    error: (fields, message) => this.#log('error', fields, message),
  };
  #isFull = false;
  #droppedLines = 0;
  #progress: string | undefined;
  #progressTimer: NodeJS.Timeout | undefined;

  reportProgress(_attempt: Attempt, value: string): void {
    this.#progress = value;
    this.#progressTimer ??= setTimeout(() => this.#sendProgress(), PROGRESS_EVERY_MS);
  }

  /** Called before the end of a job. */
  flush(): void {
    if (this.#progressTimer !== undefined) this.#sendProgress();
    this.#reportDropped();
  }

  send(message: FromProcess): void {
    const envelope: Envelope<FromProcess> = { drover: message };
    // A failed send means that the worker is gone; the watchdog handles that.
    const hasRoom = process.send?.(envelope, undefined, undefined, () => {
      this.#isFull = false;
    });
    if (hasRoom === false) this.#isFull = true;
  }

  #sendProgress(): void {
    clearTimeout(this.#progressTimer);
    this.#progressTimer = undefined;
    if (this.#progress !== undefined) this.send({ kind: 'progress', value: this.#progress });
    this.#progress = undefined;
  }

  #log(level: keyof Logger, fields: LogFields, message: string): void {
    if (this.#isFull) {
      this.#droppedLines++;
      return;
    }
    this.#reportDropped();
    this.send({ kind: 'log', level, fields: plain(fields), message });
  }

  #reportDropped(): void {
    if (this.#droppedLines === 0) return;
    const fields = { event: 'log.dropped', lines: this.#droppedLines };
    this.#droppedLines = 0;
    this.send({ kind: 'log', level: 'warn', fields, message: 'log lines of an isolated handler were dropped' });
  }
}

/** Fields as JSON can carry them. Errors have the same form as in pino. */
function plain(fields: LogFields): LogFields {
  try {
    const text = JSON.stringify(fields, (_key, value: unknown) => {
      if (value instanceof Error) return { type: value.name, message: value.message, stack: value.stack };
      return typeof value === 'bigint' ? String(value) : value;
    });
    if (text.length <= MAX_FIELDS_LENGTH) return JSON.parse(text) as LogFields;
    return { unloggable: `fields of ${text.length} characters; the limit is ${MAX_FIELDS_LENGTH}` };
  } catch (error) {
    return { unloggable: String(error) };
  }
}
