/** The frames that a server sends over the worker stream, as strings. Frequent ones are encoded by hand. */
import { type DroverError, type Grant, type ServerMessage, STREAM_VERSION } from '@drover/protocol';
import type { GrantedJob, Welcome } from '../../sessions/channel.js';

export const HAND_BACK = '{"kind":"handBack"}';
export const MOVE_ON = '{"kind":"moveOn"}';

/**
 * Characters after which a frame is full. One more job still fits into what a worker accepts, because payloads are
 * limited.
 */
const ASSIGN_LENGTH = 4 * 1024 * 1024;

/** For the less frequent frames. */
export function frameText(message: ServerMessage): string {
  return JSON.stringify(message);
}

export function welcomeText(welcome: Welcome): string {
  return frameText({ kind: 'welcome', version: STREAM_VERSION, ...welcome });
}

export function refusedText({ code, message }: DroverError): string {
  return frameText({ kind: 'refused', code, message });
}

/** Sends the assignments in as few frames as their lengths allow. */
export function sendAssignments(jobs: readonly GrantedJob[], send: (frame: string) => void): void {
  let texts = '';
  for (const { assignment } of jobs) {
    // concatenated, because a join would copy every assignment once more
    texts += texts === '' ? assignment : `,${assignment}`;
    if (texts.length < ASSIGN_LENGTH) continue;
    send(`{"kind":"assign","jobs":[${texts}]}`);
    texts = '';
  }
  if (texts !== '') send(`{"kind":"assign","jobs":[${texts}]}`);
}

/** One number instead of a thousand grants, which would cost as much as their outcomes. */
export function batchAckText(batch: number): string {
  return `{"kind":"ack","items":[],"stale":[],"batch":${batch}}`;
}

export function ackText(items: readonly Grant[], stale: readonly Grant[]): string {
  return `{"kind":"ack","items":${grantsText(items)},"stale":${grantsText(stale)}}`;
}

function grantsText(grants: readonly Grant[]): string {
  return `[${grants.map(({ id, fence }) => `{"id":"${id}","fence":${fence}}`).join(',')}]`;
}
