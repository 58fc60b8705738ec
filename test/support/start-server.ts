/** `drover server` as a process, as an operator starts it. */
import { fileURLToPath } from 'node:url';
import { HttpTransport, serverAddress } from '../../packages/sdk/src/client/http-transport.js';
import { freePort } from './free-port.js';
import { type OwnedProcess, startProcess } from './owned-process.js';
import { until } from './until.js';

const CLI = fileURLToPath(new URL('../../packages/server/dist/cli/main.js', import.meta.url));

export type ServerOptions = {
  databaseUrl: string;
  /** The first arguments of the command line. Default: `server`. */
  command?: readonly string[];
  /** Default: any free port. */
  port?: number;
  /** Further settings as flags, by their key: `{ beat: '300ms' }`. */
  flags?: Record<string, string>;
  env?: Record<string, string>;
  /** What its clients need for its certificate. Default: it has none and speaks HTTP. */
  tls?: ClientTls;
  /** Default: the command of this repository's build. */
  program?: string;
};

export type ServerProcess = OwnedProcess & { readonly url: string; readonly port: number; readonly tls: ClientTls };

/** Paths of files. */
export type ClientTls = { ca?: string; cert?: string; key?: string };

/** Starts a server without waiting until it answers. */
export async function launchServer(options: ServerOptions): Promise<ServerProcess> {
  const port = options.port ?? (await freePort());
  const flags = Object.entries({ port: String(port), ...options.flags }).flatMap(([key, value]) => [`--${key}`, value]);
  const env = { DROVER_DATABASE_URL: options.databaseUrl, DROVER_INSECURE: 'true', ...options.env };
  const { command = ['server'], program = CLI, tls = {} } = options;
  const started = startProcess(`${command[0]} ${port}`, program, [...command, ...flags], env);
  return Object.assign(started, { url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`, port, tls });
}

export async function isAnswering(server: Omit<ServerProcess, 'tls'> & { tls?: ClientTls }): Promise<void> {
  const transport = new HttpTransport(undefined, server.tls ?? {});
  const address = serverAddress(server.url);
  await until(`${server.name} answers`, async () => {
    if (server.hasExited) return true;
    const ping = { method: 'GET', path: '/api/ping', timeoutMs: 5000 };
    return (await transport.send(address, ping)).status === 200;
  });
  transport.close();
  if (server.hasExited) throw new Error(`${server.name} ended at its start:\n${server.log()}`);
}
