import { copyFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type CertificateAuthority,
  type CertificateFiles,
  createAuthority,
} from '../../../../test/support/certificates.js';
import type { EventFields, Events } from '../../src/telemetry/log-events.js';
import { createCertificateKeeper } from '../../src/tls/certificate-keeper.js';
import { namesIn } from '../../src/tls/certificate-names.js';
import { readCertificate } from '../../src/tls/read-certificate.js';

const DAY_MS = 86_400_000;
let authority: CertificateAuthority;
let good: CertificateFiles;
beforeAll(async () => {
  authority = await createAuthority();
  good = await authority.issue('good', { days: 30 });
});
afterAll(() => authority.remove());

const configOf = ({ cert, key }: CertificateFiles, clientCaFile?: string) => ({
  ...{ certFile: cert, keyFile: key, clientCaFile, clients: [] },
  minVersion: 'TLSv1.3' as const,
});
const problemOf = (files: CertificateFiles, clientCaFile?: string, now = new Date()) =>
  readCertificate(configOf(files, clientCaFile), now).then(
    () => undefined,
    (error: Error) => error.message,
  );

test('files that cannot be used are refused with the setting and the file', async () => {
  const another = await authority.issue('another');
  const text = join(authority.folder, 'text');
  await writeFile(text, 'no PEM');
  expect(await problemOf(good, authority.ca)).toBeUndefined();
  expect(await problemOf({ ...good, key: another.key })).toBe(
    `tlsKey: the private key in ${another.key} does not belong to the certificate in ${good.cert}`,
  );
  expect(await problemOf({ ...good, cert: `${text}-missing` })).toContain(`tlsCert: cannot read ${text}-missing`);
  expect(await problemOf({ ...good, cert: text })).toBe(
    `tlsCert: expected a certificate as PEM (-----BEGIN CERTIFICATE-----) in ${text}`,
  );
  expect(await problemOf({ ...good, key: text })).toContain(`tlsKey: expected a private key as PEM`);
  expect(await problemOf(good, text)).toContain(`tlsClientCa: expected a certificate as PEM`);
});

test('a certificate that is not valid now is refused, also one of the chain', async () => {
  const late = await authority.issue('late', { days: -1 });
  expect(await problemOf(late)).toMatch(
    /^tlsCert: the certificate in \S+late.pem expired on \d{4}-\d\d-\d\d: renew it$/,
  );
  expect(await problemOf(good, undefined, new Date('2020-01-01'))).toContain('is valid only from');
});

test('a keeper warns once a day when less than 14 days are left', async () => {
  const told: [string, unknown][] = [];
  const events: Events = { tell: (name, all) => told.push(...all.map((fields): [string, unknown] => [name, fields])) };
  let nowMs = Date.now();
  const logger = pino({ level: 'silent' });
  const server = createServer();
  const make = () =>
    createCertificateKeeper({ config: configOf(good), logger, events, nowMs: () => nowMs, checkEveryMs: DAY_MS });
  const check = async () => {
    const keeper = make();
    await keeper.start(server);
    await keeper.stop();
  };
  await check();
  expect(told).toEqual([]);
  nowMs += 20 * DAY_MS;
  await check();
  expect(told).toEqual([['certificate.expiring', expect.objectContaining({ file: good.cert, days: 9 })]]);
});

test('a keeper keeps its certificate and says so once when the new one cannot be used', async () => {
  const told: EventFields['certificate.unusable'][] = [];
  const events: Events = {
    tell: (_name, all) => told.push(...(all as readonly EventFields['certificate.unusable'][])),
  };
  const files = await authority.issue('kept');
  const keeper = createCertificateKeeper({
    ...{ config: configOf(files), logger: pino({ level: 'silent' }), events, checkEveryMs: DAY_MS },
  });
  await keeper.start(createServer());
  const { expiresAt } = keeper;
  await copyFile(good.cert, files.cert);
  await keeper.reload();
  expect(told.map(({ reason }) => reason)).toEqual([expect.stringContaining('tlsKey: the private key in')]);
  expect(keeper.expiresAt).toBe(expiresAt);
  await copyFile(good.key, files.key);
  await keeper.reload();
  expect(keeper.expiresAt).not.toEqual(expiresAt);
  expect(told).toHaveLength(1);
  await keeper.stop();
});

test('the names of a certificate are read as a whole or not at all', () => {
  expect(namesIn('DNS:Shop.internal, URI:spiffe://prod/mailer, IP Address:10.0.0.5, email:ops@shop.example')).toEqual([
    ...['DNS:shop.internal', 'URI:spiffe://prod/mailer', 'IP:10.0.0.5', 'email:ops@shop.example'],
  ]);
  expect(namesIn('DirName:"CN=a, O=b", DNS:shop.internal')).toEqual(['DNS:shop.internal']);
  // a name that contains the separator is quoted by Node
  expect(namesIn('URI:"http://a/, DNS:admin.internal"')).toEqual(['URI:http://a/, DNS:admin.internal']);
  expect(namesIn('URI:"http://a/", DNS:b, "DNS:c')).toEqual([]);
  expect(namesIn('')).toEqual([]);
});
