/**
 * The configuration of a server, with every default filled in and every unit resolved: inner code never asks "is it
 * set?" and never parses a duration. It imports only types, so the engine does not depend on how the values were
 * read.
 */
import type { Role } from '@drover/protocol';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A credential of the configuration. `name` is shown in logs and the audit trail. */
export type ConfiguredToken = { name: string; role: Role; token: string };

/** A name in a client's certificate, such as `DNS:shop.internal`, and whom it stands for. */
export type ConfiguredClient = { name: string; role: Role; san: string };

export type TlsConfig = {
  certFile: string;
  keyFile: string;
  /** With it, every connection needs a certificate of one of these CAs. */
  clientCaFile?: string | undefined;
  clients: readonly ConfiguredClient[];
  minVersion: 'TLSv1.2' | 'TLSv1.3';
};

export type ServerConfig = {
  port: number;
  host: string;
  databaseUrl: string;
  tokens: ConfiguredToken[];
  /** Without credentials in this configuration, everyone who reaches the server may do everything. */
  insecure: boolean;
  /** The address that workers are told. Undefined: derived from host and port. */
  publicUrl: string | undefined;
  /** Undefined: plain HTTP. */
  tls?: TlsConfig | undefined;
  retentionMs: number;
  payloadLimitBytes: number;
  resultLimitBytes: number;
  beatMs: number;
  leaseMs: number;
  pollMs: number;
  /** An occurrence of a schedule that fires later than this after its due time is logged as late. */
  lateAfterMs: number;
  /** Jobs that wait in this server's memory before it answers 429. */
  maxPending: number;
  /** Bytes of requests in progress, and of what they are parsed into, before it answers 429. */
  requestMemoryBytes: number;
  /** Connections of each of the server's pools. */
  poolSize: number;
  logLevel: LogLevel;
  /** Requests of one caller per second; 0: no limit. */
  tokenRequests: number;
  /** The part of `requestMemoryBytes` that one caller may take. */
  tokenMemoryBytes: number;
  auditEnqueues: boolean;
  auditRetentionMs: number;
  /** Proxies, as addresses or ranges, whose `x-forwarded-for` is believed. */
  trustedProxies: readonly string[];
  /** Wrong tokens of one address in a minute, after which it is refused. */
  wrongTokenLimit: number;
};

/** Whether every caller may do everything: there are no credentials, and the operator wants it so. */
export function isOpen({ tokens, tls, insecure }: Pick<ServerConfig, 'tokens' | 'tls' | 'insecure'>): boolean {
  return insecure && tokens.length === 0 && (tls?.clients.length ?? 0) === 0;
}
