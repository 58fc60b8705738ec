/** TLS between the parts as processes, with certificates made here. */
import { once } from 'node:events';
import { copyFile, readFile } from 'node:fs/promises';
import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { connect } from 'node:tls';
import { type Client, createClient } from '@drover/sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CertificateAuthority, createAuthority } from '../support/certificates.js';
import { createStage } from '../support/stage.js';
import type { ServerProcess } from '../support/start-server.js';
import { until } from '../support/until.js';

const stage = createStage();
/** Some tests start several processes one after the other. */
const LIMIT_MS = 120_000;
const TOKENS = { client: 'client-0123456789abcdef', worker: 'worker-0123456789abcdef' };
const DROVER_TOKENS = `client:${TOKENS.client},worker:${TOKENS.worker}`;

let own: CertificateAuthority;
let other: CertificateAuthority;
beforeAll(async () => {
  [own, other] = await Promise.all([createAuthority(), createAuthority()]);
});
afterAll(() => Promise.all([own.remove(), other.remove()]));

const startServer = async (
  name: string,
  options: { flags?: Record<string, string>; env?: Record<string, string> } = {},
) => {
  const { cert, key } = await own.issue(name);
  return stage.startServer({
    flags: { 'tls-cert': cert, 'tls-key': key, ...options.flags },
    env: { DROVER_TOKENS, ...options.env },
    tls: { ca: own.ca },
  });
};

const sums = async (client: Client, count: number, queue: string) => {
  const numbers = Array.from({ length: count }, (_, index) => index);
  const jobs = await Promise.all(numbers.map((a) => client.enqueue('sum', { a, b: 1 }, { queue })));
  return Promise.all(jobs.map((job) => job.result({ timeout: '30s' })));
};

const errorOf = async (options: Parameters<typeof createClient>[0]) => {
  const client = createClient({ retries: 0, token: TOKENS.client, ...options });
  const error = await client.queues().then(
    () => undefined,
    (reason: Error) => reason.message,
  );
  await client.close();
  return error;
};

/** The serial number of the certificate that new connections get. */
const serialOf = async ({ port }: Pick<ServerProcess, 'port'>) => {
  const socket = connect({ port, host: '127.0.0.1', ca: await readFile(own.ca) });
  await once(socket, 'secureConnect');
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
};

describe('a server with a certificate', () => {
  let server: ServerProcess;
  let plain: Server;
  beforeAll(async () => {
    server = await startServer('whole');
    plain = createHttpServer((_request, response) => response.end()).listen(0, '127.0.0.1');
  });
  afterAll(() => plain.close());

  test('serves clients and workers that know its CA over every transport', async () => {
    const { url } = server;
    const worker = await stage.startWorker({
      ...{ name: 'whole', url, ca: own.ca, token: TOKENS.worker, queues: ['whole'] },
    });
    const client = stage.client(url, { ca: own.ca, token: TOKENS.client });
    expect(await sums(client, 200, 'whole')).toHaveLength(200);
    expect(worker.log()).not.toContain('connecting again');
    const { rows } = await stage.pool.query('select address from drover.server');
    expect(rows).toEqual([{ address: url }]);
  });

  test('is not trusted by those that do not know its CA, and they say what to set', async () => {
    const { url } = server;
    expect(await errorOf({ url, ca: other.ca })).toContain('set ca (DROVER_CA)');
    expect(await errorOf({ url })).toContain('set ca (DROVER_CA)');
    const worker = stage.launchWorker({ name: 'distrust', url, ca: other.ca, token: TOKENS.worker });
    await until('the worker says so', () => /"level":"warn".*set ca \(DROVER_CA\)/.test(worker.log()));
    await worker.destroy();
  });

  test('is not trusted under another name', async () => {
    const url = `https://localhost:${server.port}`;
    expect(await errorOf({ url, ca: own.ca })).toContain('its certificate is for other names: use one of them in url');
  });

  test('is not trusted once its certificate has expired', async () => {
    const { cert, key } = await own.issue('late', { days: -1 });
    const late = createHttpsServer({ cert: await readFile(cert), key: await readFile(key) }).listen(0, '127.0.0.1');
    await once(late, 'listening');
    const { port } = late.address() as AddressInfo;
    expect(await errorOf({ url: `https://127.0.0.1:${port}`, ca: own.ca })).toContain(
      'its certificate has expired: renew the files in its tlsCert and tlsKey',
    );
    late.close();
  });

  test('is not confused with one without', async () => {
    const { port } = plain.address() as AddressInfo;
    expect(await errorOf({ url: `https://127.0.0.1:${port}`, ca: own.ca })).toContain('the server does not use TLS');
  });
});

test(
  'a new certificate is used at once after SIGHUP, and soon without it, and drops no job under load',
  async () => {
    const server = await startServer('renewed');
    const worker = await stage.startWorker({
      name: 'renewed',
      url: server.url,
      ca: own.ca,
      token: TOKENS.worker,
      queues: ['renewed'],
    });
    const client = stage.client(server.url, { ca: own.ca, token: TOKENS.client });
    let isEnough = false;
    const load = (async () => {
      let done = 0;
      while (!isEnough) done += (await sums(client, 50, 'renewed')).length;
      return done;
    })();
    const serials = [await serialOf(server)];
    const changed = async () => {
      const serial = await until('new connections get the new certificate', async () => {
        const found = await serialOf(server);
        return !serials.includes(found) && found;
      });
      serials.push(serial);
    };
    await own.issue('renewed');
    server.kill('SIGHUP');
    await changed();
    await own.issue('renewed');
    await changed();

    // a file that cannot be used changes nothing
    const { cert } = await own.issue('unrelated');
    await copyFile(cert, `${own.folder}/renewed.pem`);
    server.kill('SIGHUP');
    await until('the server says so', () => server.log().includes('tlsKey: the private key in'));
    expect(serials).toContain(await serialOf(server));

    isEnough = true;
    expect(await load).toBeGreaterThan(0);
    const { rows } = await stage.pool.query(
      `select count(*)::int as jobs from drover.job_history where queue = 'renewed' and (attempt <> 1 or state <> 'succeeded')`,
    );
    expect(rows).toEqual([{ jobs: 0 }]);
    expect(worker.log()).not.toContain('connecting again');
    expect(server.log()).toContain('certificate.reloaded');
  },
  LIMIT_MS,
);

test(
  'a server does not start with a certificate that has expired, nor off loopback without TLS',
  async () => {
    const refusal = async (flags: Record<string, string>) => {
      const started = stage.startServer({ flags, env: { DROVER_TOKENS, DROVER_INSECURE: '' } });
      return started.then(
        () => 'it has started',
        (error: Error) => error.message,
      );
    };
    const { cert, key } = await own.issue('expired', { days: -1 });
    expect(await refusal({ 'tls-cert': cert, 'tls-key': key })).toMatch(
      /tlsCert: the certificate in \S+ expired on \d{4}/,
    );
    expect(await refusal({ host: '0.0.0.0' })).toContain('host: 0.0.0.0 can be reached from other machines');
  },
  LIMIT_MS,
);

test(
  'a worker that was given https never speaks HTTP, whatever listens there and whatever servers announce',
  async () => {
    await stage.killAll();
    const heard: Buffer[] = [];
    const listener = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        heard.push(data);
        socket.end('HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\n\r\n');
      });
    });
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const plain = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;

    // a server whose peers announce themselves without TLS
    const server = await startServer('strict');
    await stage.pool.query(
      "insert into drover.server (id, address, host, pid, version, started_at, beat_at) select gen_random_uuid(), $1, host, pid, version, started_at, beat_at + interval '1 hour' from drover.server limit 1",
      [plain],
    );
    const worker = await stage.startWorker({
      ...{ name: 'strict', queues: ['strict'], ca: own.ca, token: TOKENS.worker },
      url: [server.url, plain.replace('http:', 'https:')],
    });
    await until('the worker was told the address', () => worker.log().includes('announced an address without TLS'));
    await server.destroy();
    await until('the worker has tried what listens in its place', () => heard.length > 2);
    await worker.destroy();
    listener.close();
    // TLS records of the kind "handshake" or "alert", and no byte of a token
    expect([...new Set(heard.map(([kind]) => kind))].filter((kind) => kind !== 0x16 && kind !== 0x15)).toEqual([]);
    expect(Buffer.concat(heard).includes(TOKENS.worker)).toBe(false);
  },
  LIMIT_MS,
);

describe('with tlsClientCa', () => {
  const startMutual = async (name: string, env: Record<string, string> = {}) => {
    const { cert, key } = await own.issue(name);
    return stage.startServer({
      flags: { 'tls-cert': cert, 'tls-key': key, 'tls-client-ca': own.ca },
      env: { DROVER_INSECURE: '', ...env },
      tls: { ca: own.ca, cert, key },
    });
  };

  test(
    'a client needs a certificate of that CA before it can send anything',
    async () => {
      const server = await startMutual('required', { DROVER_TOKENS });
      const { url } = server;
      expect(await errorOf({ url, ca: own.ca })).toContain(
        "expected a client certificate (cert and key) of a CA in this server's tlsClientCa, got none",
      );
      const foreign = await other.issue('foreign');
      expect(await errorOf({ url, ca: own.ca, ...foreign })).toContain(
        'got one that cannot be verified (UNABLE_TO_VERIFY_LEAF_SIGNATURE)',
      );
      const late = await own.issue('late-client', { days: -1 });
      expect(await errorOf({ url, ca: own.ca, ...late })).toContain(
        'got one that cannot be verified (CERT_HAS_EXPIRED)',
      );
      const worker = stage.launchWorker({ name: 'bare', url, ca: own.ca, token: TOKENS.worker });
      expect(await worker.exited).toBe(1);
      expect(worker.log()).toContain('expected a client certificate');
      // with one, the token decides
      const known = await own.issue('known');
      expect(await errorOf({ url, ca: own.ca, ...known })).toBeUndefined();
      expect(await errorOf({ url, ca: own.ca, ...known, token: 'wrong-0123456789abcdef' })).toContain(
        'a token that this server knows',
      );
    },
    LIMIT_MS,
  );

  test(
    'a name in the certificate stands for a role, on every transport',
    async () => {
      const server = await startMutual('mapped', {
        DROVER_TLS_CLIENTS: 'client:DNS:Shop.internal,worker:URI:spiffe://test/fleet,operator:DNS:ops.internal',
      });
      const shop = await own.issue('shop', { san: 'DNS:shop.internal' });
      const fleet = await own.issue('fleet', { san: 'DNS:anything,URI:spiffe://test/fleet' });
      const ops = await own.issue('ops', { san: 'DNS:ops.internal' });
      const stranger = await own.issue('stranger', { san: 'DNS:stranger.internal,URI:spiffe://test/fleet/x' });
      const to = (files: { cert: string; key: string }) => ({ ca: own.ca, ...files });
      await stage.startWorker({ name: 'mapped', url: server.url, queues: ['mapped'], ...to(fleet) });
      const client = stage.client(server.url, to(shop));
      expect(await sums(client, 100, 'mapped')).toHaveLength(100);
      await expect(client.pause({ queue: 'mapped' })).rejects.toThrow('"DNS:Shop.internal" has the role client');
      const operator = stage.client(server.url, to(ops));
      await operator.pause({ queue: 'mapped' });
      expect(await operator.pauses()).toMatchObject([{ name: 'mapped', pausedBy: 'DNS:ops.internal' }]);
      expect(await errorOf({ url: server.url, ...to(stranger), token: undefined })).toContain(
        'expected the header authorization',
      );
      const worker = stage.launchWorker({ name: 'intruder', url: server.url, ...to(shop) });
      await until('the worker is refused', () => worker.log().includes('this needs worker'));
      await worker.exited;
    },
    LIMIT_MS,
  );
});
