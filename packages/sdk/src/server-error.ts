/** Returns the error in the body of an answer, if a Drover server has sent it. */
import { DroverError, isErrorCode } from '@drover/protocol/errors';

export function serverError(text: string): DroverError | undefined {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // Not sent by a Drover server; the caller reports the text.
    return undefined;
  }
  const error = (body as { error?: { code?: unknown; message?: unknown; details?: unknown } } | null)?.error;
  if (!isErrorCode(error?.code)) return undefined;
  return new DroverError(error.code, String(error.message), error.details);
}
