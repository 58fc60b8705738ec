/** The process of an isolated handler ended before its handler did. */
import { LIMITS } from '@drover/protocol';

/** Characters of the process's output in the message; the error's stack has more. */
const SHOWN_LENGTH = 1024;

export type ProcessErrorCode = 'crashed' | 'memory_limit';

export class ProcessError extends Error {
  override readonly name = 'ProcessError';
  readonly code: ProcessErrorCode;

  /** `output` is the end of the process's stderr. It replaces the stack of the error. */
  constructor(code: ProcessErrorCode, message: string, output = '') {
    const text = output.trim();
    super(text === '' ? message : `${message}; its stderr ended with: ${text.slice(-SHOWN_LENGTH)}`);
    this.code = code;
    const room = LIMITS.errorStackLength - message.length - 100;
    this.stack = text === '' ? `${this.name}: ${message}` : `${this.name}: ${message}\n${text.slice(-room)}`;
  }
}
