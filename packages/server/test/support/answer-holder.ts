/**
 * Stands between a server and PostgreSQL and keeps back what PostgreSQL answers on the first connection that says a
 * given word: what was asked there is committed, and nobody has heard of it yet.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type AnswerHolder = {
  /** The connection string that leads through here. */
  readonly url: string;
  /** From now on; gives what lets the answers pass again. */
  holdAnswersTo(word: string): () => void;
  close(): Promise<void>;
};

export async function startAnswerHolder(databaseUrl: string): Promise<AnswerHolder> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let awaited: string | undefined;
  let held: Socket | undefined;
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    }
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
    near.on('data', (bytes) => {
      if (awaited !== undefined && bytes.includes(awaited)) {
        awaited = undefined;
        held = far.pause();
      }
      far.write(bytes);
    });
    far.on('data', (bytes) => near.write(bytes));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    holdAnswersTo(word) {
      awaited = word;
      return () => void held?.resume();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
