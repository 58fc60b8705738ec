/**
 * Reads the files of a server's certificate and checks that they belong together, so that a mistake is reported with
 * the setting and the file instead of an OpenSSL code.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { systemProblem } from '../base/system-problem.js';
import { ConfigError } from '../config/config-error.js';
import type { TlsConfig } from '../config/server-config.js';

export type Certificate = {
  /** For `setSecureContext`. */
  context: SecureContextOptions;
  /** When the first certificate of the chain expires. */
  expiresAt: Date;
};

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Throws ConfigError if a file is missing or broken, or the certificate is not valid at `now`. */
export async function readCertificate(config: TlsConfig, now: Date): Promise<Certificate> {
  const { certFile, keyFile, clientCaFile, minVersion } = config;
  // one after the other, so that of several missing files always the same one is named
  const cert = await read('tlsCert', certFile);
  const key = await read('tlsKey', keyFile);
  const ca = clientCaFile === undefined ? undefined : await read('tlsClientCa', clientCaFile);
  const chain = certificatesIn('tlsCert', certFile, cert);
  checkKey(config, chain[0] as X509Certificate, key);
  for (const { validFrom, validTo } of chain) checkValidity(certFile, { validFrom, validTo }, now);
  if (clientCaFile !== undefined && ca !== undefined) certificatesIn('tlsClientCa', clientCaFile, ca);
  const context: SecureContextOptions = { cert, key, minVersion, ...(ca === undefined ? {} : { ca }) };
  try {
    createSecureContext(context);
  } catch (error) {
    throw new ConfigError(`tlsCert: OpenSSL refuses ${certFile}: ${(error as Error).message}`, { cause: error });
  }
  return { context, expiresAt: new Date(Math.min(...chain.map(({ validTo }) => Date.parse(validTo)))) };
}

async function read(setting: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new ConfigError(`${setting}: cannot read ${file}: ${systemProblem(error)}`, { cause: error });
  }
}

/** At least one. */
function certificatesIn(setting: string, file: string, text: string): X509Certificate[] {
  const blocks = text.match(PEM_CERTIFICATE);
  if (blocks === null) {
    throw new ConfigError(`${setting}: expected a certificate as PEM (-----BEGIN CERTIFICATE-----) in ${file}`);
  }
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      throw new ConfigError(`${setting}: certificate ${index + 1} in ${file} cannot be read`, { cause: error });
    }
  });
}

function checkKey({ certFile, keyFile }: TlsConfig, certificate: X509Certificate, text: string): void {
  let matches: boolean;
  try {
    matches = certificate.checkPrivateKey(createPrivateKey(text));
  } catch (error) {
    // The cause is not shown: it could quote the file.
    throw new ConfigError(`tlsKey: expected a private key as PEM, without a passphrase, in ${keyFile}`, {
      cause: error,
    });
  }
  if (matches) return;
  throw new ConfigError(`tlsKey: the private key in ${keyFile} does not belong to the certificate in ${certFile}`);
}

function checkValidity(file: string, { validFrom, validTo }: { validFrom: string; validTo: string }, now: Date): void {
  if (Date.parse(validTo) <= now.getTime()) {
    throw new ConfigError(`tlsCert: the certificate in ${file} expired on ${isoDay(validTo)}: renew it`);
  }
  if (Date.parse(validFrom) > now.getTime()) {
    throw new ConfigError(
      `tlsCert: the certificate in ${file} is valid only from ${isoTime(validFrom)}: check the clock of this machine`,
    );
  }
}

function isoDay(time: string): string {
  return isoTime(time).slice(0, 10);
}

function isoTime(time: string): string {
  return new Date(time).toISOString();
}
