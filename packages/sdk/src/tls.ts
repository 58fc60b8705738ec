/**
 * TLS of the connections to servers. Each option is PEM text or the path of a file. Files are read again for each new
 * connection, so a renewed certificate needs no restart.
 */
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { DroverError } from '@drover/protocol/errors';

export type TlsOptions = {
  /** The CAs of the servers' certificates. Default: `DROVER_CA`, or the CAs that Node trusts. */
  ca?: string | undefined;
  /** The client certificate, for servers with `tlsClientCa`. Default: `DROVER_CERT`. */
  cert?: string | undefined;
  /** The private key of `cert`, without a passphrase. Default: `DROVER_KEY`. */
  key?: string | undefined;
};

export const TLS_OPTION_NAMES = ['ca', 'cert', 'key'] as const;
type TlsOptionName = (typeof TLS_OPTION_NAMES)[number];

/** PEM text or paths; what is not set is absent. Can be sent to another thread. */
export type TlsSources = { readonly [Name in TlsOptionName]?: string };

const PEM = '-----BEGIN ';

/** Throws DroverError if something is missing, cannot be read or does not belong together. */
export function tlsSources(where: string, given: TlsOptions): TlsSources {
  const values = TLS_OPTION_NAMES.map((name) => [name, sourceOf(where, name, given[name])] as const);
  const sources: TlsSources = Object.fromEntries(values.filter(([, value]) => value !== undefined));
  if ((sources.cert === undefined) !== (sources.key === undefined)) {
    const [present, missing] = sources.cert === undefined ? ['key', 'cert'] : ['cert', 'key'];
    refuse(where, missing, `expected a value, because ${present} is set; got none`);
  }
  try {
    createSecureContext(readTls(sources));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (error instanceof DroverError) refuse(where, String((error.details as { field?: string }).field), message);
    if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH')
      refuse(where, 'key', 'expected the private key of cert, got another');
    refuse(where, 'cert', `the certificate and its key cannot be used (PEM without a passphrase expected): ${message}`);
  }
  return sources;
}

/** For a socket or a request. Throws DroverError if a file cannot be read. */
export function readTls(sources: TlsSources): TlsSources {
  return Object.fromEntries(Object.entries(sources).map(([name, source]) => [name, readSource(name, source)]));
}

function sourceOf(where: string, name: TlsOptionName, given: unknown): string | undefined {
  const value = given ?? (process.env[`DROVER_${name.toUpperCase()}`] || undefined);
  if (value === undefined || (typeof value === 'string' && value !== '')) return value;
  return refuse(where, name, `expected PEM text or the path of a file, got ${typeof given}`);
}

function readSource(name: string, source: string): string {
  if (source.includes(PEM)) return source;
  let text: string;
  try {
    text = readFileSync(source, 'utf8');
  } catch (error) {
    throw problem(name, `cannot read the file ${JSON.stringify(source)}: ${(error as Error).message}`);
  }
  if (text.includes(PEM)) return text;
  throw problem(name, `expected PEM (-----BEGIN …) in the file ${JSON.stringify(source)}`);
}

function problem(field: string, message: string): DroverError {
  return new DroverError('invalid_request', message, { field });
}

function refuse(where: string, field: string, message: string): never {
  throw new DroverError('invalid_request', `${where}: ${field}: ${message}`, { issues: [{ field, message }] });
}
