/**
 * The kinds of values that a setting can have. Each accepts the text of an environment variable or flag and the plain
 * value of a file, and describes what it expects.
 */

import { isIP } from 'node:net';
import {
  formatDuration,
  MAX_DURATION_MS,
  nameSchema,
  nearest,
  parseDuration,
  ROLES,
  type Role,
} from '@drover/protocol';
import type { z } from 'zod';
import { splitHosts } from '../base/split-hosts.js';
import type { ConfiguredClient, ConfiguredToken } from './server-config.js';

export type ValueKind<Value> = {
  expected: string;
  /** Undefined for an invalid value. */
  parse: (given: unknown) => Value | undefined;
  /** What is wrong with an invalid secret, without showing it. */
  problem?: (given: unknown) => string | undefined;
};

const BYTE_UNITS: Record<string, number> = {
  B: 1,
  KIB: 1024,
  MIB: 1024 ** 2,
  GIB: 1024 ** 3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
};
/** Names in certificates are compared as a whole: there are no wildcards. */
const SAN_PATTERN = /^(DNS|URI|IP|email):[^\s*]+$/;
const BYTES_PATTERN = /^(\d{1,15}(?:\.\d{1,3})?)\s*([a-z]{1,3})$/i;

export function integer(min: number, max: number): ValueKind<number> {
  return {
    expected: `a whole number from ${min} to ${max}`,
    parse: (given) => {
      const value = numberOf(given);
      return value !== undefined && Number.isInteger(value) && value >= min && value <= max ? value : undefined;
    },
  };
}

/** Returns milliseconds. */
export function duration(minMs: number, maxMs: number = MAX_DURATION_MS): ValueKind<number> {
  const least = minMs > 0 ? ` of at least ${formatDuration(minMs)}` : '';
  const range = maxMs < MAX_DURATION_MS ? ` from ${formatDuration(minMs)} to ${formatDuration(maxMs)}` : least;
  return {
    expected: `a duration${range} such as "30s", "10m", "2h", "14d", or milliseconds`,
    parse: (given) => {
      const ms = parseDuration(numberOf(given) ?? given);
      return ms !== undefined && ms >= minMs && ms <= maxMs ? ms : undefined;
    },
  };
}

/** Returns bytes. */
export function bytes(min: number, max: number): ValueKind<number> {
  return {
    expected: `a size from ${min} to ${max} bytes such as "512KiB", "1MiB", or a number of bytes`,
    parse: (given) => {
      const value = numberOf(given) ?? sizeOf(given);
      return value !== undefined && Number.isInteger(value) && value >= min && value <= max ? value : undefined;
    },
  };
}

export function boolean(): ValueKind<boolean> {
  return {
    expected: 'true or false',
    parse: (given) => {
      if (given === true || given === 'true' || given === '1') return true;
      return given === false || given === 'false' || given === '0' ? false : undefined;
    },
  };
}

export function text(expected: string, accepts: (value: string) => boolean): ValueKind<string> {
  return { expected, parse: (given) => (typeof given === 'string' && accepts(given) ? given : undefined) };
}

export function oneOf<Option extends string>(options: readonly Option[]): ValueKind<Option> {
  return {
    expected: `one of ${options.join(', ')}`,
    parse: (given) => options.find((option) => option === given),
  };
}

export function address(...protocols: string[]): ValueKind<string> {
  const expected = `an address that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
  return text(expected, (value) => URL.canParse(value) && protocols.includes(new URL(value).protocol));
}

/** An IP address, or a range of them such as `10.0.0.0/8`. */
export function addressRange(): ValueKind<string> {
  return text('an IP address or a range such as 10.0.0.0/8', (value) => {
    const [address = '', bits, ...rest] = value.split('/');
    const most = [0, 32, 128][isIP(address) / 2] ?? 0;
    return (
      isIP(address) !== 0 && rest.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && +bits <= most))
    );
  });
}

/** A connection string. It may contain several hosts, separated by commas. */
export function databaseAddress(): ValueKind<string> {
  const { parse, expected } = address('postgres:', 'postgresql:');
  return text(expected, (value) => splitHosts(value).every((host) => parse(host) !== undefined));
}

/** A comma-separated string or an array. */
export function listOf<Item>(item: ValueKind<Item>): ValueKind<Item[]> {
  return {
    expected: `one or more, separated by commas: ${item.expected}`,
    parse: (given) => {
      const parts = typeof given === 'string' ? given.split(',').map((part) => part.trim()) : given;
      return Array.isArray(parts) && parts.length > 0 ? everyOf(parts.map((part) => item.parse(part))) : undefined;
    },
  };
}

export function name(): ValueKind<string> {
  const schema: z.ZodType<string> = nameSchema;
  return text(
    'a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _',
    (value) => schema.safeParse(value).success,
  );
}

/** `role:token,role:token`, or in a file `[{ "name": "ci", "role": "client", "token": "…" }]`. */
export function tokens(): ValueKind<ConfiguredToken[]> {
  return {
    expected: `"role:token,role:token", or in a file a list of { name, role, token }; roles are ${ROLES.join(', ')}`,
    parse: (given) => {
      const parts = tokenParts(given);
      return Array.isArray(parts) ? everyOf(parts.map(tokenOf)) : undefined;
    },
    problem(given) {
      const parts = tokenParts(given);
      if (!Array.isArray(parts)) return undefined;
      const index = parts.findIndex((part, place) => tokenOf(part, place) === undefined);
      return `got ${tokenProblem(parts[index])} at place ${index + 1}`;
    },
  };
}

function tokenParts(given: unknown): unknown {
  return typeof given === 'string' ? given.split(',').map(splitToken) : given;
}

/** A role is only named if it is a misspelt one: the text could be the token, in the place of the role. */
function tokenProblem(part: unknown): string {
  if (typeof part !== 'object' || part === null) return `${part === null ? 'null' : `a ${typeof part}`}`;
  const { name: given, role, token, ...unknown } = part as Record<string, unknown>;
  const known = ROLES.some((one) => one === role);
  const near = typeof role === 'string' ? nearest(role, ROLES) : undefined;
  if (!known) return near ? `the role "${String(role)}" (did you mean ${near}?)` : 'no known role';
  if (typeof token !== 'string') return 'no token';
  const [field] = Object.keys(unknown);
  return field === undefined
    ? `an invalid name${given === undefined ? '' : ` ${JSON.stringify(given)}`}`
    : `an unknown field "${field}"`;
}

function splitToken(part: string): unknown {
  const colon = part.indexOf(':');
  return { role: part.slice(0, colon).trim(), token: part.slice(colon + 1).trim() };
}

function tokenOf(value: unknown, index: number): ConfiguredToken | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { name: given, role, token, ...unknown } = value as Record<string, unknown>;
  if (!isRole(role) || typeof token !== 'string' || Object.keys(unknown).length > 0) return undefined;
  const named = given === undefined ? `${role}-${index + 1}` : name().parse(given);
  return named === undefined ? undefined : { name: named, role, token };
}

/** `role:SAN,role:SAN`, or in a file `[{ "name": "shop", "role": "client", "san": "DNS:shop.internal" }]`. */
export function clients(): ValueKind<ConfiguredClient[]> {
  return {
    expected:
      '"role:DNS:name,role:URI:uri", or in a file a list of { name, role, san } with a san such as "DNS:shop.internal", ' +
      `"URI:spiffe://…", "IP:10.0.0.5" or "email:…"; roles are ${ROLES.join(', ')}`,
    parse: (given) => {
      const parts: unknown = typeof given === 'string' ? given.split(',').map(splitClient) : given;
      return Array.isArray(parts) ? everyOf(parts.map(clientOf)) : undefined;
    },
  };
}

function splitClient(part: string): unknown {
  const colon = part.indexOf(':');
  return { role: part.slice(0, colon).trim(), san: part.slice(colon + 1).trim() };
}

function clientOf(value: unknown): ConfiguredClient | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { name: given, role, san, ...unknown } = value as Record<string, unknown>;
  if (!isRole(role) || typeof san !== 'string' || !SAN_PATTERN.test(san) || Object.keys(unknown).length > 0)
    return undefined;
  const named = given === undefined ? san : name().parse(given);
  return named === undefined ? undefined : { name: named, role, san };
}

function isRole(value: unknown): value is Role {
  return ROLES.some((known) => known === value);
}

function numberOf(given: unknown): number | undefined {
  if (typeof given === 'number') return given;
  return typeof given === 'string' && /^-?\d{1,15}$/.test(given.trim()) ? Number(given) : undefined;
}

function sizeOf(given: unknown): number | undefined {
  const match = typeof given === 'string' ? BYTES_PATTERN.exec(given.trim()) : null;
  const unit = match ? BYTE_UNITS[(match[2] ?? '').toUpperCase()] : undefined;
  return unit === undefined ? undefined : Math.round(Number(match?.[1]) * unit);
}

function everyOf<Item>(items: (Item | undefined)[]): Item[] | undefined {
  return items.every((item) => item !== undefined) ? (items as Item[]) : undefined;
}
