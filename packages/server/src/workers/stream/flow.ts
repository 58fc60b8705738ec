/**
 * Flow control of one connection: nothing more is read from a peer that does not take in its answers, or whose frames are not
 * settled yet. So it cannot fill the memory of the server, and TCP slows it down.
 */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { FULL_BACKLOG_BYTES } from '../../sessions/session.js';

/** Characters of frames. A worker that waits for a slow database is not slowed down by it. */
const MAX_UNSETTLED_LENGTH = 64 * 1024 * 1024;

export type Flow = {
  /** `settled`: when nothing of the frame is in memory any more. Undefined: at once. */
  received(length: number, settled: Promise<void> | undefined): void;
};

export function createFlow(socket: WebSocket, carrier: Duplex): Flow {
  let unsettledLength = 0;

  function update(): void {
    const isFull = unsettledLength > MAX_UNSETTLED_LENGTH || socket.bufferedAmount > FULL_BACKLOG_BYTES;
    if (isFull && !socket.isPaused) socket.pause();
    else if (!isFull && socket.isPaused) socket.resume();
  }

  carrier.on('drain', update);
  return {
    received(length, settled) {
      if (settled) {
        unsettledLength += length;
        void settled.finally(() => {
          unsettledLength -= length;
          update();
        });
      }
      update();
    },
  };
}
