import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import {
  CALLS_PATH,
  type DroverError,
  newId,
  ROLES,
  ROUTES,
  type Role,
  type Route,
  STREAM_PATH,
} from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Principal, UNLIMITED } from '../../src/access/principal.js';
import { createAuthenticator, createAuthorizer } from '../../src/api/auth.js';
import { connect } from '../support/raw-worker.js';
import { type ApiBench, createApiBench, errorOf, TOKENS, tokenOf } from './api-bench.js';

const routes: [string, Route][] = Object.entries(ROUTES);
const guarded = routes.filter(([, route]) => route.roles !== 'anyone');
const open = routes.filter(([, route]) => route.roles === 'anyone');
const pathOf = (route: Route) => route.path.replace(':id', newId()).replace(':name', 'some-name');
const RIGHT_BODIES: Record<string, object> = {
  [ROUTES.enqueueJob.path]: { type: 'hello' },
  [ROUTES.enqueueJobs.path]: { jobs: [] },
  [ROUTES.putWorkflow.path]: { steps: { one: { type: 'hello' } } },
  [ROUTES.startRun.path]: { workflow: 'some-name' },
  [ROUTES.repeatRun.path]: { from: 'one' },
  [ROUTES.putSchedule.path]: { every: '1d', job: { type: 'hello' } },
  [ROUTES.previewSchedule.path]: { every: '1d' },
  [ROUTES.backfillSchedule.path]: { from: '2030-01-01T00:00:00Z', to: '2030-01-02T00:00:00Z' },
  [ROUTES.putCalendar.path]: { dates: ['2030-12-25'] },
  [ROUTES.createToken.path]: { name: 'one', role: 'viewer' },
};
const authenticatorOf = (config: Parameters<typeof createAuthenticator>[0]['config']) =>
  createAuthenticator({
    ...{ config, known: { find: () => undefined }, addressOf: () => '127.0.0.1' },
    wrong: { check() {}, note() {} },
  });
/** A request that is right in form, so that only the credential decides. */
const requestOf = (route: Route) => ({
  method: route.method,
  ...(route.body && { body: RIGHT_BODIES[route.path] ?? {} }),
});

describe('with tokens', () => {
  let api: ApiBench;
  beforeAll(async () => {
    api = await createApiBench({ tokens: TOKENS });
  });
  afterAll(() => api.close());

  test('strangers do not learn which streams exist', async () => {
    for (const path of [STREAM_PATH, CALLS_PATH, '/api/v1/nothing']) {
      await expect(connect({ port: api.port, path })).rejects.toThrow('401 unauthenticated');
    }
    await expect(connect({ port: api.port, path: '/api/v1/nothing', token: tokenOf('worker') })).rejects.toThrow('404');
  });

  describe.each(guarded)('%s', (_name, route) => {
    test('is closed to strangers, whatever they send', async () => {
      const right = tokenOf('admin');
      const credentials = [
        undefined,
        '',
        'Bearer',
        'Bearer ',
        `Bearer ${right}x`,
        `Bearer ${right.slice(1)}`,
        `Bearer ${right} ${right}`,
        `Bearer ${right},`,
        `Basic ${Buffer.from(`admin:${right}`).toString('base64')}`,
        right,
        `Bearer ${'x'.repeat(10_000)}`,
      ];
      for (const authorization of credentials) {
        const headers = authorization === undefined ? {} : { authorization };
        const answer = await api.call(pathOf(route), { ...requestOf(route), headers });
        expect([authorization, answer.status, errorOf(answer).code]).toEqual([authorization, 401, 'unauthenticated']);
        expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
      }
    });

    test('is closed to strangers by every method and way to write its path', async () => {
      const path = pathOf(route);
      const variants = [
        path,
        `${path}/`,
        `/${path}`,
        path.replace('/api/', '/api//'),
        path.replace('/v1/', '/v1/./'),
        path.replace('/v1/', '/%2e/v1/'),
        path.replace('/v1/', '/v1/../v1/'),
        path.replace('/api/', '/%61pi/'),
        path.replace('/api/', '/API/'),
        path.replace('/api/', '/api;x=1/'),
        `${path}%00`,
        `${path}?token=${tokenOf('admin')}`,
        `http://localhost${path}`,
      ];
      for (const variant of variants) {
        for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
          const answer = await api.call(variant, { method });
          expect([method, variant, answer.status]).toEqual([method, variant, 401]);
        }
      }
    });

    test.each(ROLES)(`is open to the role %s only if the table says so`, async (role) => {
      const answer = await api.call(pathOf(route), { ...requestOf(route), token: tokenOf(role) });
      const allowed = role === 'admin' || (route.roles as readonly Role[]).includes(role);
      if (allowed) {
        expect([200, 201, 404]).toContain(answer.status);
      } else {
        expect(answer.status).toBe(403);
        expect(errorOf(answer)).toMatchObject({ code: 'forbidden', message: expect.stringContaining(role) });
      }
    });
  });

  test.each(open)('%s is open to everybody', async (_name, route) => {
    expect((await api.call(route.path)).status).toBe(200);
    expect((await api.call(route.path, { method: 'HEAD' })).status).toBe(200);
    expect((await api.call(`${route.path}?_=1`)).status).toBe(200);
    expect((await api.call(route.path, { method: 'POST' })).status).toBe(405);
  });

  test('strangers learn nothing about what is there', async () => {
    for (const path of ['/nothing', '/api', '/api/v1', '/api/v1/nothing', '/metrics', `/api/v1/jobs/${newId()}`]) {
      expect((await api.call(path)).status).toBe(401);
    }
    expect((await api.call('/api/v1/nothing', { token: tokenOf('viewer') })).status).toBe(404);
  });

  test('a stranger is refused before the body is read', async () => {
    const head = 'POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n';
    const answer = await api.sendRaw(`${head}content-length: 60000000\r\nconnection: close\r\n\r\n{"type":`);
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
  });

  test('a token works whatever name or page the request comes from', async () => {
    const headers = { host: 'jobs.example.org', origin: 'https://elsewhere.example' };
    const answer = await api.call('/api/v1/jobs', {
      method: 'POST',
      body: { type: 'a' },
      headers,
      token: tokenOf('client'),
    });
    expect(answer.status).toBe(201);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });

  test('an answer never carries a token', async () => {
    const token = `${tokenOf('admin')}-wrong`;
    for (const path of ['/api/v1/jobs', '/api/v1/nothing', '/api/deep_ping']) {
      const { text, headers } = await api.call(path, { token });
      expect(text + JSON.stringify(headers)).not.toContain('0123456789abcdef');
    }
  });
});

describe('without tokens', () => {
  let api: ApiBench;
  beforeAll(async () => {
    api = await createApiBench({ insecure: true });
  });
  afterAll(() => api.close());

  test.each(['localhost', 'localhost:8420', 'LOCALHOST', '127.0.0.1:1', '127.8.9.1', '[::1]:8420'])(
    'the host %s is this machine',
    async (host) => {
      expect((await api.call('/api/v1/stats', { headers: { host } })).status).toBe(200);
    },
  );

  test.each([
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '10.0.0.1',
    'evil.example:127',
    '[::2]',
  ])('the host %s is refused: an attacker may have made its name resolve to this address', async (host) => {
    for (const path of ['/api/v1/stats', '/api/v1/nothing', '/api/ping']) {
      const answer = await api.call(path, { headers: { host } });
      expect([answer.status, errorOf(answer).code]).toEqual([403, 'forbidden']);
    }
  });

  test('a page of another origin can change nothing', async () => {
    const own = `http://localhost:${api.port}`;
    const send = (origin: string) =>
      api.call('/api/v1/jobs', { method: 'POST', body: { type: 'a' }, headers: { host: new URL(own).host, origin } });
    for (const origin of [
      'https://evil.example',
      'null',
      'http://localhost:1',
      `http://localhost:${api.port}.evil.example`,
    ]) {
      expect([origin, (await send(origin)).status]).toEqual([origin, 403]);
    }
    expect((await send(own)).status).toBe(201);
  });
});

describe('a worker that asks for a stream', () => {
  const request = (headers: Record<string, string>) => {
    const message = new IncomingMessage(new Socket());
    message.method = 'GET';
    message.headers = { host: 'localhost:8420', upgrade: 'websocket', ...headers };
    return message;
  };
  const refusal = (headers: Record<string, string>, tokens = TOKENS) => {
    const config = { host: '127.0.0.1', tokens, insecure: true };
    const authorize = createAuthorizer(config, authenticatorOf(config), {
      ...{ roles: ['worker'], scope: 'checked', action: 'workerStream' },
    });
    return authorize(request(headers)).then(
      () => undefined,
      (error: DroverError) => error.code,
    );
  };

  test('needs the role worker or admin', async () => {
    const codes = await Promise.all(
      ROLES.map(async (role) => [role, await refusal({ authorization: `Bearer ${tokenOf(role)}` })]),
    );
    expect(Object.fromEntries(codes)).toEqual({
      viewer: 'forbidden',
      operator: 'forbidden',
      client: 'forbidden',
      enqueue: 'forbidden',
      worker: undefined,
      auditor: 'forbidden',
      admin: undefined,
    });
    expect(await refusal({})).toBe('unauthenticated');
  });

  test('is not a page in a browser', async () => {
    expect(await refusal({}, [])).toBeUndefined();
    expect(await refusal({ origin: 'https://evil.example' }, [])).toBe('forbidden');
    expect(await refusal({ host: 'evil.example' }, [])).toBe('forbidden');
  });
});

test('the scheme is read as HTTP has it: any case, any number of spaces', () => {
  const { identify } = authenticatorOf({ tokens: TOKENS, insecure: false });
  const headers = { authorization: `bearer   ${tokenOf('viewer')}` };
  const principal: Principal = { name: 'the-viewer', role: 'viewer', kind: 'configured', ...UNLIMITED };
  const access = { roles: ['viewer'], action: 'listJobs' } as const;
  const caller = { principal, address: '127.0.0.1', requestId: null, action: 'listJobs' };
  expect(identify({ headers, socket: new Socket() }, access)).toEqual(caller);
});
