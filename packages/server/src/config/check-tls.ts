/** What the settings of TLS must fulfil together. The files are read later. Pure. */
import { isLoopback } from '../base/is-loopback.js';
import { ConfigError } from './config-error.js';
import type { TlsConfig } from './server-config.js';
import type { Settings } from './settings.js';

type TlsSettings = Pick<Settings, 'tlsCert' | 'tlsKey' | 'tlsClientCa' | 'tlsClients' | 'tlsMin'>;
type TransportSettings = TlsSettings & Pick<Settings, 'host' | 'publicUrl' | 'behindTlsProxy' | 'insecure'>;

/** Undefined: plain HTTP. */
export function toTlsConfig(settings: TlsSettings): TlsConfig | undefined {
  const { tlsCert: certFile, tlsKey: keyFile, tlsClientCa: clientCaFile, tlsClients: clients, tlsMin } = settings;
  if (certFile === undefined || keyFile === undefined) {
    const given = Object.entries({ tlsCert: certFile, tlsKey: keyFile, tlsClientCa: clientCaFile });
    const alone = given.find(([, file]) => file !== undefined)?.[0] ?? (clients.length > 0 ? 'tlsClients' : undefined);
    if (alone === undefined) return undefined;
    const missing = certFile === undefined ? 'tlsCert' : 'tlsKey';
    throw new ConfigError(`${missing}: expected the path of a file, because ${alone} is set; got none`);
  }
  if (clients.length > 0 && clientCaFile === undefined) {
    throw new ConfigError('tlsClientCa: expected the CAs of client certificates, because tlsClients is set; got none');
  }
  checkUnique(clients);
  return { certFile, keyFile, clientCaFile, clients, minVersion: `TLSv${tlsMin}` };
}

/** Tokens and payloads must not cross a network unencrypted, unless the operator asks for it by name. */
export function checkTransport(settings: TransportSettings): void {
  const { host, publicUrl, behindTlsProxy, insecure, tlsCert } = settings;
  const isPublicSecure = publicUrl?.startsWith('https:') === true;
  if (behindTlsProxy && tlsCert !== undefined) {
    throw new ConfigError('behindTlsProxy: expected either this or tlsCert, got both');
  }
  if (behindTlsProxy && !isPublicSecure) {
    throw new ConfigError(
      `publicUrl: expected the https:// address of the proxy, because behindTlsProxy is set; got ${publicUrl ?? 'none'}`,
    );
  }
  if (tlsCert !== undefined && publicUrl !== undefined && !isPublicSecure) {
    throw new ConfigError(`publicUrl: expected an https:// address, because tlsCert is set; got ${publicUrl}`);
  }
  if (tlsCert !== undefined || behindTlsProxy || insecure || isLoopback(host)) return;
  throw new ConfigError(
    `host: ${host} can be reached from other machines, and the server has no TLS: set tlsCert and tlsKey, ` +
      'or --behind-tls-proxy if a proxy ends TLS, or --insecure to send tokens and payloads unencrypted',
  );
}

function checkUnique(clients: TlsConfig['clients']): void {
  const sans = clients.map(({ san }) => san);
  const names = clients.map(({ name }) => name);
  const san = sans.find((value, index) => sans.indexOf(value) !== index);
  if (san !== undefined) throw new ConfigError(`tlsClients: there are two with the san "${san}"`);
  const name = names.find((value, index) => names.indexOf(value) !== index);
  if (name !== undefined) throw new ConfigError(`tlsClients: there are two with the name "${name}"`);
}
