/** Why a server could not be reached, in words that name the remedy where there is one. */

/** What OpenSSL says when the other side answers without TLS. */
const NO_TLS = /wrong version number|packet length too long|record layer failure/;

/** Codes of Node and OpenSSL for a certificate that cannot be accepted. */
const CERTIFICATE_PROBLEMS: readonly (readonly [RegExp, string])[] = [
  [
    /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+|CERT_SIGNATURE_FAILURE)$/,
    'its certificate is not signed by a CA that this program trusts: set ca (DROVER_CA) to that CA',
  ],
  [/^CERT_HAS_EXPIRED$/, 'its certificate has expired: renew the files in its tlsCert and tlsKey'],
  [/^CERT_NOT_YET_VALID$/, 'its certificate is not valid yet: check the clocks'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'its certificate is for other names: use one of them in url, or add this one to the certificate in its tlsCert',
  ],
  [/^ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION$/, 'it does not accept this version of TLS: see its tlsMin'],
];

const NETWORK_PROBLEMS: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'connection refused; check that a server runs at this address'],
  ['ENOTFOUND', 'there is no host of this name'],
  ['EAI_AGAIN', 'the name of the host could not be looked up'],
  ['ECONNRESET', 'the connection was closed before the answer'],
  ['EHOSTUNREACH', 'the host cannot be reached'],
  ['ETIMEDOUT', 'the host does not answer'],
]);

/** The address is https, and the server answers without TLS. A repetition cannot help. */
export function lacksTls(error: unknown): boolean {
  return error instanceof Error && NO_TLS.test(error.message);
}

/** Whether an operator has to fix the address or a certificate. */
export function isTlsProblem(error: unknown): boolean {
  return lacksTls(error) || certificateProblem(error) !== undefined;
}

export function describeConnectError(error: unknown): string {
  if (lacksTls(error)) return 'the server does not use TLS; give its address as http://…';
  if (!(error instanceof Error)) return String(error);
  const problem = certificateProblem(error);
  if (problem !== undefined) return problem;
  if (error.message.startsWith('Parse Error')) {
    return 'the answer is not HTTP; if the server uses TLS, give its address as https://…';
  }
  // Node tries all addresses of a name and reports their errors as one without a message.
  if (error instanceof AggregateError) return [...new Set(error.errors.map(describeConnectError))].join('; ');
  const refusal = NETWORK_PROBLEMS.get(String((error as NodeJS.ErrnoException).code));
  return refusal ?? (error.message || error.name);
}

function certificateProblem(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return CERTIFICATE_PROBLEMS.find(([pattern]) => typeof code === 'string' && pattern.test(code))?.[1];
}
