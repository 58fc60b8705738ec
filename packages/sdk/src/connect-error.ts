/** Why a server could not be reached, in words that name the remedy where there is one. */

/** What OpenSSL says when the other side answers without TLS. */
const NO_TLS = /wrong version number|packet length too long|record layer failure/;

/** The address is https, and the server answers without TLS. A repetition cannot help. */
export function lacksTls(error: unknown): boolean {
  return error instanceof Error && NO_TLS.test(error.message);
}

export function describeConnectError(error: unknown): string {
  if (lacksTls(error)) return 'the server does not use TLS; give its address as http://…';
  if (!(error instanceof Error)) return String(error);
  if (error.message.startsWith('Parse Error')) {
    return 'the answer is not HTTP; if the server uses TLS, give its address as https://…';
  }
  // Node tries all addresses of a name and reports their errors as one without a message.
  if (error instanceof AggregateError) return error.errors.map(describeConnectError).join('; ');
  return error.message || error.name;
}
