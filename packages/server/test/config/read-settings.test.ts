import { ROLES } from '@drover/protocol';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/config/config-error.js';
import { resolveSettings as readAll, type Sources } from '../../src/config/read-settings.js';
import { flagName, SETTING_KEYS, SETTINGS, settingOf, variableName } from '../../src/config/settings.js';

const nothing = { flags: {}, env: {} };
const resolveSettings = (sources: Sources) => readAll(sources).settings;
const file = (content: unknown) => ({ ...nothing, file: { path: '/x/drover.config.json', content } });

/** As the kubelet makes them, with a named port. */
const serviceLinks = (service: string, host: string, port: number, portName: string) => ({
  [`${service}_SERVICE_HOST`]: host,
  [`${service}_SERVICE_PORT`]: `${port}`,
  [`${service}_SERVICE_PORT_${portName}`]: `${port}`,
  [`${service}_PORT`]: `tcp://${host}:${port}`,
  [`${service}_PORT_${port}_TCP`]: `tcp://${host}:${port}`,
  [`${service}_PORT_${port}_TCP_PROTO`]: 'tcp',
  [`${service}_PORT_${port}_TCP_PORT`]: `${port}`,
  [`${service}_PORT_${port}_TCP_ADDR`]: host,
});

describe('settings', () => {
  it('have the documented defaults', () => {
    expect(resolveSettings(nothing)).toMatchObject({
      port: 8420,
      host: '127.0.0.1',
      databaseUrl: undefined,
      dataDir: '.drover',
      tokens: [],
      insecure: false,
      retention: 14 * 86_400_000,
      payloadLimit: 1024 * 1024,
      beat: 5000,
      lease: 30_000,
      poll: 250,
      maxPending: 50_000,
      requestMemory: 256 * 1024 ** 2,
      url: ['http://127.0.0.1:8420'],
      slots: 10,
      queues: undefined,
    });
  });

  it('come from flags before the environment before the file before the default', () => {
    const all = { flags: { port: '1' }, env: { DROVER_PORT: '2' }, file: { path: 'f', content: { port: 3 } } };
    expect(resolveSettings(all).port).toBe(1);
    expect(resolveSettings({ ...all, flags: {} }).port).toBe(2);
    expect(resolveSettings({ ...all, flags: {}, env: {} }).port).toBe(3);
    expect(resolveSettings(nothing).port).toBe(8420);
  });

  it('take an empty variable for one that is not there', () => {
    expect(resolveSettings({ flags: {}, env: { DROVER_PORT: '' } }).port).toBe(8420);
  });

  it('are read alike from texts and plain values', () => {
    const env = {
      DROVER_PAYLOAD_LIMIT: '2MiB',
      DROVER_BEAT: '100',
      DROVER_INSECURE: 'true',
      DROVER_QUEUES: 'mail, reports',
      DROVER_URL: 'http://a:1,https://b:2',
      DROVER_TOKENS: 'worker:0123456789abcdef,admin:fedcba9876543210',
    };
    const plain = {
      payloadLimit: 2 * 1024 * 1024,
      beat: 100,
      insecure: true,
      queues: ['mail', 'reports'],
      url: ['http://a:1', 'https://b:2'],
      tokens: [
        { role: 'worker', token: '0123456789abcdef' },
        { role: 'admin', token: 'fedcba9876543210' },
      ],
    };
    const settings = resolveSettings({ flags: {}, env });
    expect(settings).toEqual(resolveSettings(file(plain)));
    expect(settings.tokens.map(({ name, role }) => `${name} ${role}`)).toEqual(['worker-1 worker', 'admin-2 admin']);
  });

  it.each([
    [
      { flags: { port: '70000' }, env: {} },
      'port: expected a whole number from 0 to 65535, got "70000" (from flag --port)',
    ],
    [{ flags: {}, env: { DROVER_PORT: '8420x' } }, 'got "8420x" (from environment variable DROVER_PORT)'],
    [file({ port: 1.5 }), 'got 1.5 (from file /x/drover.config.json)'],
    [file({ lease: 'soon' }), 'lease: expected a duration from 150ms to 1h such as "30s"'],
    [file({ payloadLimit: '1 parsec' }), 'payloadLimit: expected a size from 1 to'],
    [file({ logLevel: 'loud' }), 'logLevel: expected one of trace, debug, info'],
    [file({ url: 'ftp://a' }), 'url: expected one or more, separated by commas: an address that starts with http://'],
    [file({ queues: [] }), 'queues: expected one or more'],
    [file({ tokens: [{ role: 'king', token: 'x' }] }), `roles are ${ROLES.join(', ')}`],
    [file({ prot: 1 }), 'file /x/drover.config.json: unknown setting "prot"; did you mean "port"?'],
    [file([]), 'expected an object of settings'],
  ])('refuse bad input %#', (sources, message) => {
    expect(() => resolveSettings(sources)).toThrow(ConfigError);
    expect(() => resolveSettings(sources)).toThrow(message);
  });

  it.each([
    ['client:0123456789abcdef,opertor:fedcba9876543210', 'got the role "opertor" (did you mean operator?) at place 2'],
    ['0123456789abcdef:client', 'got no known role at place 1'],
    ['0123456789abcdef', 'got no known role at place 1'],
    [[{ role: 'client' }], 'got no token at place 1'],
    [[{ role: 'client', token: '0123456789abcdef', name: 'two words' }], 'got an invalid name "two words" at place 1'],
    [[{ role: 'client', token: '0123456789abcdef', scope: 'mail' }], 'got an unknown field "scope" at place 1'],
    [['0123456789abcdef'], 'got a string at place 1'],
  ])('tell what is wrong with a token, without the token %#', (tokens, problem) => {
    const read = () => resolveSettings(file({ tokens }));
    expect(read).toThrow(`roles are ${ROLES.join(', ')}, ${problem} (from file`);
    expect(read).toThrow(expect.objectContaining({ message: expect.not.stringContaining('0123456789') }));
  });

  it('never show a secret in an error', () => {
    for (const env of [{ DROVER_TOKENS: 'hunter2' }, { DROVER_DATABASE_URL: 'mysql://hunter2' }]) {
      expect(() => resolveSettings({ flags: {}, env })).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
      );
    }
  });

  it('ignore the variables that Kubernetes makes from Services, whatever these are called', () => {
    const env = {
      ...serviceLinks('DROVER', '10.0.0.1', 8420, 'HTTP'),
      ...serviceLinks('DROVER_DB', 'fd00::1', 5432, 'TCP_POSTGRESQL'),
      DROVER_TOKEN: 'x',
    };
    const { settings, ignored } = readAll({ flags: {}, env });
    expect(settings).toMatchObject({ port: 8420, token: 'x' });
    expect(ignored).toEqual({ serviceLinks: Object.keys(env).filter((name) => name !== 'DROVER_TOKEN'), unknown: [] });
  });

  it('take DROVER_PORT for the setting unless it is an address, and then refuse what is not a number', () => {
    expect(resolveSettings({ flags: {}, env: { DROVER_PORT: '9000' } }).port).toBe(9000);
    for (const value of ['http://10.0.0.1:8420', 'tcp://', 'tcp', '10.0.0.1']) {
      expect(() => resolveSettings({ flags: {}, env: { DROVER_PORT: value } })).toThrow(
        'port: expected a whole number',
      );
    }
  });

  it('tell of unknown environment variables, with a suggestion only if a name is close', () => {
    const env = {
      DROVER_DATABSE_URL: 'x',
      DROVER_LOGLEVEL: 'x',
      DROVER_SERVICE_HOST: 'drover.example.com',
      DROVER_DB_PASSWORD: 'x',
      DROVER_ID: 'x',
    };
    expect(readAll({ flags: {}, env }).ignored.unknown).toEqual([
      { name: 'DROVER_DATABSE_URL', suggestion: 'DROVER_DATABASE_URL' },
      { name: 'DROVER_LOGLEVEL', suggestion: 'DROVER_LOG_LEVEL' },
      { name: 'DROVER_SERVICE_HOST', suggestion: undefined },
      { name: 'DROVER_DB_PASSWORD', suggestion: undefined },
      { name: 'DROVER_ID', suggestion: undefined },
    ]);
  });

  it("leave the test suite's own variables alone", () => {
    expect(() => resolveSettings({ flags: {}, env: { DROVER_TEST_DATABASE_URL: 'x', OTHER: 'y' } })).not.toThrow();
  });

  it('have names that follow from the key, a description, and a default of their own kind', () => {
    expect(variableName('payloadLimit')).toBe('DROVER_PAYLOAD_LIMIT');
    expect(flagName('payloadLimit')).toBe('--payload-limit');
    for (const key of SETTING_KEYS) {
      const { kind, description, default: value, commands } = settingOf(key);
      expect(description, key).toMatch(/\.$/);
      expect(commands.length, key).toBeGreaterThan(0);
      if (value !== undefined) expect(kind.parse(value), key).toBeDefined();
    }
    expect(SETTINGS.port.default).toBe(8420);
  });
});
