/**
 * A free port below the range from which systems take the ports of outgoing connections. So a server that is killed
 * finds its own port free when it is restarted.
 */
import { createServer } from 'node:net';

const LOWEST = 20_000;
const HIGHEST = 31_000;
const TRIES = 50;

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (await isFree(port)) return port;
  }
  throw new Error(`none of ${TRIES} ports is free`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
