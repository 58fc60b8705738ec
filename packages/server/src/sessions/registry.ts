/** The sessions that this server serves: at most one per worker, the one of its newest connection. */
import type { Logger } from 'pino';
import type { Session } from './session.js';

export type Sessions = ReadonlyMap<string, Session>;

export type Registry = {
  readonly sessions: Sessions;
  add(session: Session): void;
  /** Closes the session on this server. In the database it lives on until its lease expires. */
  remove(session: Session): void;
  /** Removes it and ends its channel; the worker connects again. */
  disconnect(session: Session, reason: string): void;
};

export function createRegistry(logger: Logger): Registry {
  const sessions = new Map<string, Session>();

  function remove(session: Session): void {
    session.closed = true;
    if (sessions.get(session.id) === session) sessions.delete(session.id);
  }

  return {
    sessions,
    add: (session) => void sessions.set(session.id, session),
    remove,
    disconnect(session, reason) {
      remove(session);
      const fields = { event: 'worker.disconnected', worker: session.name, session: session.id };
      logger.info(fields, `disconnecting worker: ${reason}`);
      session.channel.disconnect();
    },
  };
}
