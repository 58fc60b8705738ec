import { describe, expect, it } from 'vitest';
import { checkExposure, checkServerConfig, toServerConfig } from '../../src/config/check-exposure.js';
import { resolveSettings } from '../../src/config/read-settings.js';

const token = (name: string, secret = `${name}-0123456789abcdef`) => ({ name, role: 'admin' as const, token: secret });
const exposure = (host: string, tokens = [] as ReturnType<typeof token>[], insecure = false) =>
  checkExposure({ host, tokens, insecure });

describe('a server without tokens', () => {
  it.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1', '[::1]'])('may listen on %s', (host) => {
    expect(() => exposure(host)).not.toThrow();
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.example.com', 'localhost.example.com'])(
    'may not listen on %s unless it is told so by name',
    (host) => {
      expect(() => exposure(host)).toThrow('there are no tokens: set DROVER_TOKENS="role:token", or --insecure');
      expect(() => exposure(host, [], true)).not.toThrow();
    },
  );
});

describe('tokens', () => {
  it('open the server to other machines', () => {
    expect(() => exposure('0.0.0.0', [token('ci')])).not.toThrow();
  });

  it('must be long, and different', () => {
    expect(() => exposure('127.0.0.1', [token('ci', 'hunter2')])).toThrow('tokens: "ci" has 7 characters');
    expect(() => exposure('127.0.0.1', [token('ci'), token('ci', 'another-0123456789')])).toThrow('two with the name');
    const same = token('a').token;
    expect(() => exposure('127.0.0.1', [token('a'), token('b', same)])).toThrow('"b" is the same as another one');
  });

  it('are never shown', () => {
    expect(() => exposure('127.0.0.1', [token('ci', 'hunter2')])).not.toThrow(/hunter2/);
  });
});

it('a lease of less than three beats is refused', () => {
  const config = (beat: string, lease: string) =>
    toServerConfig(resolveSettings({ flags: { beat, lease }, env: {} }).settings, 'postgres://x');
  expect(() => checkServerConfig(config('5s', '15s'))).not.toThrow();
  expect(() => checkServerConfig(config('5s', '14s'))).toThrow('lease: expected at least 3 beats of 5s, got 14s');
});
