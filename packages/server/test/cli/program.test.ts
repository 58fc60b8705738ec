import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { drover } from './run-cli.js';

/** Nothing listens here. */
const NOWHERE = ['--url', 'http://127.0.0.1:1'];

describe('the command drover', () => {
  it('prints its version and its help, with the exit codes', async () => {
    expect(await drover(['--version'])).toEqual({ code: 0, stdout: '0.1.0\n', stderr: '' });
    const help = await drover(['--help']);
    expect(help.code).toBe(0);
    expect(help.stdout).toContain('Run a server: HTTP API');
    expect(help.stdout).toContain('4  the job that was waited for failed or was cancelled');
  });

  it.each([
    [['sever'], "unknown command 'sever'", 'server'],
    [['server', '--prot', '1'], "unknown option '--prot'", '--port'],
    [['job', 'lst'], "unknown command 'lst'", 'list'],
    [['job', 'add'], "missing required argument 'type'", ''],
    [['queues', 'surplus'], 'too many arguments', ''],
  ])('refuses %j and says what may be meant', async (args, message, suggestion) => {
    const { code, stderr } = await drover(args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(stderr).toContain(suggestion);
  });

  it('refuses a bad configuration before it does anything', async () => {
    const badPort = await drover(['server', '--port', 'eighty']);
    expect(badPort).toMatchObject({ code: 2, stdout: '' });
    expect(badPort.stderr).toBe(
      'drover: port: expected a whole number from 0 to 65535, got "eighty" (from flag --port)\n',
    );
    for (const command of ['server', 'node']) {
      const short = await drover([command, '--lease', '1s', '--database-url', 'postgres://nowhere/x']);
      expect(short).toMatchObject({ code: 2, stderr: expect.stringContaining('lease: expected at least 3 beats') });
    }
    const exposed = await drover(['dev', '--host', '0.0.0.0', '--database-url', 'postgres://nowhere/x']);
    expect(exposed).toMatchObject({ code: 2, stderr: expect.stringContaining('can be reached from other machines') });
  });

  it('creates no database unless it is asked to', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'drover-cli-'));
    for (const command of ['server', 'node', 'migrate']) {
      expect(await drover([command], { cwd, env: { NODE_ENV: 'production' } })).toEqual({
        code: 2,
        stdout: '',
        stderr:
          'drover: databaseUrl: expected the address of your PostgreSQL (DROVER_DATABASE_URL or --database-url), got none; ' +
          'to run an embedded PostgreSQL in .drover instead, use --embedded (DROVER_EMBEDDED=true)\n',
      });
      const both = { DROVER_EMBEDDED: 'true', DROVER_DATABASE_URL: 'postgres://127.0.0.1:1/x' };
      expect(await drover([command], { cwd, env: both })).toMatchObject({
        code: 2,
        stderr: 'drover: embedded: expected either this or databaseUrl, got both\n',
      });
    }
    expect(await readdir(cwd)).toEqual([]);
    await rm(cwd, { recursive: true });
  });

  it('warns once of environment variables that are no settings, and carries on', async () => {
    const env = { DROVER_TOKN: 'x', DROVER_FLAVOUR: 'mint', DROVER_PORT: 'tcp://10.0.0.1:8420' };
    const warning = 'ignored unknown environment variables: DROVER_TOKN (did you mean DROVER_TOKEN?), DROVER_FLAVOUR';
    const client = await drover(['queues', ...NOWHERE], { env });
    expect(client.code).toBe(3);
    expect(client.stderr.split('\n')[0]).toBe(`drover: ${warning}`);
    const server = await drover(['server', '--embedded', '--insecure', '--log-level', 'debug'], {
      env: { ...env, DROVER_LEASE: '1s' },
    });
    expect(server.code).toBe(2);
    const [warned, ignored] = server.stderr.split('\n').map((line) => line.startsWith('{') && JSON.parse(line));
    expect(warned).toMatchObject({ level: 40, event: 'settings.unknown-variables', msg: warning });
    expect(ignored).toMatchObject({ level: 20, event: 'settings.service-links', variables: ['DROVER_PORT'] });
  });

  it('tells errors as JSON to those who ask for it', async () => {
    const { code, stderr } = await drover(['server', '--port', 'eighty', '--json']);
    expect(code).toBe(2);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'usage', message: expect.stringContaining('port') } });
  });

  it('has its own code for a server that does not answer', async () => {
    for (const args of [['queues'], ['job', 'list'], ['job', 'add', 'hello']]) {
      const { code, stderr } = await drover([...args, ...NOWHERE]);
      expect({ code, args }).toEqual({ code: 3, args });
      expect(stderr).toContain('127.0.0.1:1');
    }
  });

  it('names the port that is taken and the flag to choose another', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const address = taken.address();
    const port = typeof address === 'object' && address ? String(address.port) : '';
    for (const command of ['server', 'node', 'dev']) {
      const flags = command === 'dev' ? [] : ['--embedded', '--insecure'];
      const { code, stderr } = await drover([command, '--port', port, ...flags]);
      expect(code).toBe(1);
      expect(stderr).toContain(`port ${port} on 127.0.0.1 is taken`);
      expect(stderr).toContain('--port');
    }
    await new Promise((resolve) => taken.close(resolve));
  });

  it('tells when the database cannot be reached', async () => {
    const { code, stderr } = await drover(['migrate', '--database-url', 'postgres://x:secret@127.0.0.1:1/x']);
    expect(code).toBe(1);
    expect(stderr).toContain('cannot connect to PostgreSQL at 127.0.0.1:1: connection refused');
    expect(stderr).not.toContain('secret');
  });
});
