import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient, defineJob } from '@drover/sdk';
import { createWorker } from '@drover/sdk/worker';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  type CertificateAuthority,
  type CertificateFiles,
  createAuthority,
} from '../../../test/support/certificates.js';

let authority: CertificateAuthority;
let files: CertificateFiles;
beforeAll(async () => {
  authority = await createAuthority();
  files = await authority.issue('a');
});
afterAll(() => authority.remove());
afterEach(() => {
  for (const name of ['DROVER_CA', 'DROVER_CERT', 'DROVER_KEY']) delete process.env[name];
});

const url = 'https://localhost';
const jobs = [defineJob({ type: 'a', run: () => undefined })];

describe('ca, cert and key', () => {
  it('are checked when a client or a worker is made, and the error names the option', async () => {
    const other = await authority.issue('b');
    const text = join(authority.folder, 'text');
    await writeFile(text, 'no PEM');
    expect(() => createClient({ url, ca: '/nowhere' })).toThrow('createClient: ca: cannot read the file "/nowhere"');
    expect(() => createClient({ url, ca: text })).toThrow('createClient: ca: expected PEM');
    expect(() => createClient({ url, cert: files.cert })).toThrow('createClient: key: expected a value, because cert');
    expect(() => createWorker({ jobs, url, key: files.key })).toThrow('createWorker: cert: expected a value');
    expect(() => createClient({ url, ...files, key: other.key })).toThrow(
      'createClient: key: expected the private key of cert, got another',
    );
    expect(() => createClient({ url, ca: 7 as never })).toThrow('createClient: ca: expected PEM text or the path');
  });

  it('come from the environment if they are not given', () => {
    process.env.DROVER_CA = '/nowhere';
    expect(() => createClient({ url })).toThrow('ca: cannot read the file "/nowhere"');
    expect(() => createClient({ url, ca: authority.ca })).not.toThrow();
  });
});

it('addresses with and without TLS cannot be mixed, because the token would cross the network unencrypted', () => {
  expect(() => createClient({ url: 'https://a,http://b' })).toThrow(
    'url: expected either https:// or http:// for all servers, got both (http://b has no TLS)',
  );
});
