/** Why a connection to PostgreSQL was not possible, and what to do. Without the password. */
import type pg from 'pg';

type Target = Pick<pg.Client, 'host' | 'port' | 'user' | 'database'>;

/** By SQLSTATE, or by the code of the operating system. */
const PROBLEMS: Record<string, (target: Target) => string> = {
  ECONNREFUSED: () => 'connection refused; check that it runs there and accepts connections',
  ENOTFOUND: ({ host }) => `there is no host "${host}"; check its name`,
  EAI_AGAIN: ({ host }) => `the name "${host}" could not be looked up; check it and the network`,
  EHOSTUNREACH: () => 'the host cannot be reached; check the address and the network',
  '28P01': ({ user }) => `the password of the user "${user}" is wrong`,
  '3D000': ({ user, database }) =>
    `there is no database "${database}"; create it: create database "${database}" owner "${user}"`,
};

/** Errors without a code, by their text. */
const TEXTS: readonly (readonly [part: string, problem: (target: Target) => string])[] = [
  ['password must be a string', ({ user }) => `the user "${user}" needs a password; add it to the address`],
  ['does not support SSL', () => 'it does not use TLS; remove sslmode from the address'],
  ['timeout expired', () => 'no answer; check the address and the firewall'],
];

export function connectProblem(error: unknown, target: Target): string {
  const { code, message } = error as { code?: unknown; message?: string };
  const known = PROBLEMS[String(code)] ?? TEXTS.find(([part]) => message?.includes(part))?.[1];
  const problem = known ? known(target) : (message ?? String(error));
  return `databaseUrl: cannot connect to PostgreSQL at ${target.host}:${target.port}: ${problem}`;
}
