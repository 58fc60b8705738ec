/** What callers see who may not read payloads: the size in place of a value. Names and codes of errors stay. */
import type { JobError } from '@drover/protocol';

/** For JSON text; null and undefined stay. */
export function hiddenJson<Text extends string | null | undefined>(json: Text): Text {
  return (typeof json === 'string' ? markOf(json) : json) as Text;
}

export function hiddenError(error: JobError): JobError {
  const { message, stack } = error;
  return { ...error, message: markOf(message), ...(stack !== undefined && { stack: markOf(stack) }) };
}

/** For an error as JSON text. */
export function hiddenErrorText(json: string | null): string | null {
  return json && JSON.stringify(hiddenError(JSON.parse(json) as JobError));
}

export function markOf(text: string): string {
  return `{"hidden":true,"bytes":${Buffer.byteLength(text)}}`;
}
