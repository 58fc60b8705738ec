/**
 * Stands between a server and PostgreSQL and keeps back what PostgreSQL answers on the first connection that says a
 * given word: the statement is committed, and its caller has no answer yet.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type AnswerHolder = {
  /** The connection string that leads through here. */
  readonly url: string;
  /** From now on; gives what lets them pass again, all that have come in one packet. */
  holdAnswersTo(word: string): () => void;
  /** Whether what is kept back says this. */
  holds(word: string): boolean;
  close(): Promise<void>;
};

export async function startAnswerHolder(databaseUrl: string): Promise<AnswerHolder> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let awaited: string | undefined;
  let held: { near: Socket; answers: Buffer[] } | undefined;
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    }
    near.on('close', () => far.destroy());
    far.on('close', () => held?.near !== near && near.destroy());
    near.on('data', (bytes) => {
      if (awaited !== undefined && bytes.includes(awaited)) {
        awaited = undefined;
        held = { near, answers: [] };
      }
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (held?.near === near) held.answers.push(bytes);
      else near.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    holdAnswersTo(word) {
      awaited = word;
      return () => {
        held?.near.write(Buffer.concat(held.answers));
        held = undefined;
      };
    },
    holds: (word) => held !== undefined && Buffer.concat(held.answers).includes(word),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
