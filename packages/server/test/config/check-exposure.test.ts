import { describe, expect, it } from 'vitest';
import {
  checkCredentials,
  checkServerConfig,
  openOnLoopback,
  toServerConfig,
} from '../../src/config/check-exposure.js';
import { resolveSettings } from '../../src/config/read-settings.js';
import { isOpen } from '../../src/config/server-config.js';

const token = (name: string, secret = `${name}-0123456789abcdef`) => ({ name, role: 'admin' as const, token: secret });
const serverConfig = (flags: Record<string, string>, env: Record<string, string> = {}) =>
  toServerConfig(resolveSettings({ flags, env }).settings, 'postgres://x');

describe('a server without credentials', () => {
  const credentials = (tokens: ReturnType<typeof token>[], insecure: boolean, inDatabase = false) =>
    checkCredentials({ tokens, insecure }, async () => inDatabase);

  it('does not start unless it is told so by name', async () => {
    await expect(credentials([], false)).rejects.toThrow(
      'tokens: expected at least one in the database (`drover token bootstrap` makes the first one) or in the configuration ' +
        '(DROVER_TOKENS="role:token"), got none; to let every caller do everything, use --insecure (DROVER_INSECURE=true)',
    );
    await credentials([], true);
    await credentials([token('ci')], false);
    await credentials([], false, true);
  });

  const isOpenInDev = (host: string) => isOpen(openOnLoopback(serverConfig({ host })));

  it.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1', '[::1]'])('is open in drover dev on %s', (host) => {
    expect(isOpenInDev(host)).toBe(true);
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.example.com', 'localhost.example.com'])(
    'is not open in drover dev on %s',
    (host) => {
      expect(isOpenInDev(host)).toBe(false);
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
