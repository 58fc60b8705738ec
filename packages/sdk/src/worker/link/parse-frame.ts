import type { ServerMessage } from '@drover/protocol';

/**
 * The frame, if it has the shape of one. The server is trusted with the rest: a schema would cost CPU for each job.
 */
export function parseFrame(text: string): ServerMessage | undefined {
  try {
    const message = JSON.parse(text) as { kind?: unknown; jobs?: unknown; items?: unknown } | null;
    if (typeof message?.kind !== 'string') return undefined;
    if (message.kind === 'assign' && !Array.isArray(message.jobs)) return undefined;
    if ((message.kind === 'ack' || message.kind === 'cancel') && !Array.isArray(message.items)) return undefined;
    return message as ServerMessage;
  } catch {
    // Not JSON: the caller ends the connection and reports it.
    return undefined;
  }
}
