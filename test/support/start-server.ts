/** `drover server` as a process, as an operator starts it. */
import { fileURLToPath } from 'node:url';
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
  /** Default: the command of this repository's build. */
  program?: string;
};

export type ServerProcess = OwnedProcess & { readonly url: string; readonly port: number };

/** Starts a server without waiting until it answers. */
export async function launchServer(options: ServerOptions): Promise<ServerProcess> {
  const port = options.port ?? (await freePort());
  const flags = Object.entries({ port: String(port), ...options.flags }).flatMap(([key, value]) => [`--${key}`, value]);
  const env = { DROVER_DATABASE_URL: options.databaseUrl, DROVER_INSECURE: 'true', ...options.env };
  const { command = ['server'], program = CLI } = options;
  const started = startProcess(`${command[0]} ${port}`, program, [...command, ...flags], env);
  return Object.assign(started, { url: `http://127.0.0.1:${port}`, port });
}

export async function isAnswering(server: ServerProcess): Promise<void> {
  await until(`${server.name} answers`, async () => {
    if (server.hasExited) return true;
    return (await fetch(`${server.url}/api/ping`)).ok;
  });
  if (server.hasExited) throw new Error(`${server.name} ended at its start:\n${server.log()}`);
}
