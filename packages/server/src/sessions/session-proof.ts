/**
 * How a session is proven. Its id is not secret: lists and logs show it. Its resume key is known to the worker and to the next
 * process with the same journal; the database has only a hash of it.
 */
import { createHash, createHmac } from 'node:crypto';
import { DroverError, type Hello } from '@drover/protocol';

/** Hexadecimal. */
export type SessionProof = {
  readonly keyHash: string;
  /** Binds the session to the token that opened it, also after the token was rotated. */
  readonly credentialProof: string;
};

export function hashOfKey(resumeKey: string): string {
  return createHash('sha256').update(resumeKey).digest('hex');
}

/** `credential`: by what the worker was let in. */
export function proofOf({ resumeKey }: Hello, credential: string): SessionProof {
  return {
    keyHash: hashOfKey(resumeKey),
    credentialProof: createHmac('sha256', resumeKey).update(credential).digest('hex'),
  };
}

export function isSameProof(one: SessionProof, other: SessionProof): boolean {
  return one.keyHash === other.keyHash && one.credentialProof === other.credentialProof;
}

export function notProven(sessionId: string): DroverError {
  return new DroverError(
    'forbidden',
    `session ${sessionId} belongs to another worker: expected its resume key and the token that it was opened with`,
  );
}
