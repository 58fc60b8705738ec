/** Certificates that a test makes itself, with the `openssl` of the machine. */
import { execFile } from 'node:child_process';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Paths of files. */
export type CertificateFiles = { cert: string; key: string };

export type CertificateAuthority = {
  readonly folder: string;
  /** Path of its own certificate. */
  readonly ca: string;
  /** `days: -1` is a certificate that expired yesterday. Names that exist are replaced. */
  issue(name: string, options?: { san?: string; days?: number }): Promise<CertificateFiles>;
  remove(): Promise<void>;
};

const SERVER_NAMES = 'IP:127.0.0.1';

export async function createAuthority(): Promise<CertificateAuthority> {
  const folder = await mkdtemp(join(tmpdir(), 'drover-certificates-'));
  const at = (file: string) => join(folder, file);
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await openssl('req', '-x509', ...newKey, '-days', '365', '-subj', '/CN=CA', '-keyout', 'ca.key', '-out', 'ca.pem');

  return {
    folder,
    ca: at('ca.pem'),
    async issue(name, { san = SERVER_NAMES, days = 90 } = {}) {
      await writeFile(at(`${name}.ext`), `subjectAltName=${san}\nbasicConstraints=CA:FALSE\n`);
      await openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}.key.new`, '-out', `${name}.csr`);
      const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', String(days)];
      await openssl(
        'x509',
        '-req',
        '-in',
        `${name}.csr`,
        ...signed,
        '-extfile',
        `${name}.ext`,
        '-out',
        `${name}.pem.new`,
      );
      await rename(at(`${name}.key.new`), at(`${name}.key`));
      await rename(at(`${name}.pem.new`), at(`${name}.pem`));
      return { cert: at(`${name}.pem`), key: at(`${name}.key`) };
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
