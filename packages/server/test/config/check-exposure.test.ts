import { describe, expect, it } from 'vitest';
import { checkExposure, checkServerConfig, toServerConfig } from '../../src/config/check-exposure.js';
import { resolveSettings } from '../../src/config/read-settings.js';

const token = (name: string, secret = `${name}-0123456789abcdef`) => ({ name, role: 'admin' as const, token: secret });
const exposure = (host: string, tokens = [] as ReturnType<typeof token>[], insecure = false) =>
  checkExposure({ host, tokens, insecure });
const serverConfig = (flags: Record<string, string>, env: Record<string, string> = {}) =>
  toServerConfig(resolveSettings({ flags, env }).settings, 'postgres://x');

describe('a server without tokens', () => {
  const hosts = ['127.0.0.1', 'localhost', '0.0.0.0', '10.0.0.1'];

  it.each(hosts)('does not start on %s unless it is told so by name', (host) => {
    expect(() => exposure(host)).toThrow(
      'tokens: expected at least one (DROVER_TOKENS="role:token"; `openssl rand -base64 32` makes one), got none; ' +
        'to let every caller do everything, use --insecure (DROVER_INSECURE=true)',
    );
    expect(() => exposure(host, [], true)).not.toThrow();
    expect(() => exposure(host, [token('ci')])).not.toThrow();
  });

  it.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1', '[::1]'])('may be started by drover dev on %s', (host) => {
    expect(() => checkExposure({ host, tokens: [], insecure: false }, { openOnLoopback: true })).not.toThrow();
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.example.com', 'localhost.example.com'])(
    'is not started by drover dev on %s either',
    (host) => {
      expect(() => checkExposure({ host, tokens: [], insecure: false }, { openOnLoopback: true })).toThrow(
        `tokens: expected at least one on ${host}, which other machines can reach`,
      );
    },
  );
});

describe('tokens', () => {
  const check = (...tokens: ReturnType<typeof token>[]) =>
    checkServerConfig({ ...serverConfig({}), tokens: [...tokens, token('other')] });

  it('must be long, and different', () => {
    expect(() => check(token('ci'))).not.toThrow();
    expect(() => check(token('ci', 'hunter2'))).toThrow('tokens: "ci" has 7 characters');
    expect(() => check(token('ci'), token('ci', 'another-0123456789'))).toThrow('two with the name');
    const same = token('a').token;
    expect(() => check(token('a'), token('b', same))).toThrow('"b" is the same as another one');
  });

  it('are never shown', () => {
    expect(() => check(token('ci', 'hunter2'))).not.toThrow(/hunter2/);
  });
});

it('a lease of less than three beats is refused', () => {
  const config = (beat: string, lease: string) => serverConfig({ beat, lease }, { DROVER_INSECURE: 'true' });
  expect(() => checkServerConfig(config('5s', '15s'))).not.toThrow();
  expect(() => checkServerConfig(config('5s', '14s'))).toThrow('lease: expected at least 3 beats of 5s, got 14s');
});
