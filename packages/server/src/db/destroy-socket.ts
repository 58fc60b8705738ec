import type pg from 'pg';

/** A half-open connection answers nothing, not even a close; only its socket can be ended. */
export function destroySocket(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}
