import { describe, expect, it } from 'vitest';
import { toServerConfig } from '../../src/config/check-exposure.js';
import { checkTransport } from '../../src/config/check-tls.js';
import { resolveSettings } from '../../src/config/read-settings.js';

const settingsOf = (flags: Record<string, unknown>) => resolveSettings({ flags, env: {} }).settings;
const transport = (flags: Record<string, unknown>) => () => checkTransport(settingsOf(flags));
const tlsOf = (flags: Record<string, unknown>) => toServerConfig(settingsOf(flags), 'postgres://x').tls;
const files = { tlsCert: 'a.pem', tlsKey: 'a.key' };

describe('a server that other machines can reach', () => {
  it.each(['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.example.com'])('needs TLS on %s', (host) => {
    expect(transport({ host })).toThrow(`host: ${host} can be reached from other machines, and the server has no TLS`);
  });

  it('may speak HTTP to a proxy with TLS, or if it is told so by name', () => {
    const host = '0.0.0.0';
    expect(transport({ host, ...files })).not.toThrow();
    expect(transport({ host, insecure: true })).not.toThrow();
    expect(transport({ host, behindTlsProxy: true, publicUrl: 'https://a' })).not.toThrow();
    expect(transport({ host, behindTlsProxy: true })).toThrow('publicUrl: expected the https:// address of the proxy');
    expect(transport({ host, behindTlsProxy: true, publicUrl: 'http://a' })).toThrow('got http://a');
    expect(transport({ host, publicUrl: 'https://a' })).toThrow('the server has no TLS');
  });

  it('does not announce an address without TLS when it has a certificate', () => {
    expect(transport({ ...files, publicUrl: 'http://a' })).toThrow('publicUrl: expected an https:// address');
    expect(transport({ ...files, behindTlsProxy: true, publicUrl: 'https://a' })).toThrow('got both');
  });
});

it('a server on loopback may speak HTTP', () => {
  for (const host of ['127.0.0.1', 'localhost', '::1']) expect(transport({ host })).not.toThrow();
});

describe('the settings of TLS', () => {
  it('are complete or absent', () => {
    expect(tlsOf({})).toBeUndefined();
    expect(tlsOf({ ...files, tlsMin: '1.2' })).toMatchObject({ certFile: 'a.pem', minVersion: 'TLSv1.2', clients: [] });
    expect(() => tlsOf({ tlsCert: 'a.pem' })).toThrow('tlsKey: expected the path of a file, because tlsCert is set');
    expect(() => tlsOf({ tlsClientCa: 'a.pem' })).toThrow('tlsCert: expected the path of a file, because tlsClientCa');
    expect(() => tlsOf({ ...files, tlsClients: 'worker:DNS:a' })).toThrow('tlsClientCa: expected the CAs');
  });

  it('give names in certificates a role', () => {
    const mutual = { ...files, tlsClientCa: 'ca.pem' };
    expect(tlsOf({ ...mutual, tlsClients: 'worker:URI:spiffe://a/b, admin:DNS:ops.internal' })?.clients).toEqual([
      { name: 'URI:spiffe://a/b', role: 'worker', san: 'URI:spiffe://a/b' },
      { name: 'DNS:ops.internal', role: 'admin', san: 'DNS:ops.internal' },
    ]);
    for (const wrong of ['worker:a', 'guest:DNS:a', 'worker:DNS:*.internal', 'worker:DNS:', [{ role: 'worker' }]]) {
      expect(() => tlsOf({ ...mutual, tlsClients: wrong }), String(wrong)).toThrow('tlsClients: expected');
    }
    expect(() => tlsOf({ ...mutual, tlsClients: 'worker:DNS:a,admin:DNS:a' })).toThrow('two with the san "DNS:a"');
  });
});
