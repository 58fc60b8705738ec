/** Reports the environment variables that were ignored, once per command. */
import type { Logger } from 'pino';
import type { ReadSettings } from '../config/read-settings.js';

type Ignored = ReadSettings['ignored'];

/** Undefined if there are no unknown variables. */
export function unknownVariablesText({ unknown }: Ignored): string | undefined {
  if (unknown.length === 0) return undefined;
  const names = unknown.map(({ name, suggestion }) => (suggestion ? `${name} (did you mean ${suggestion}?)` : name));
  return `ignored ${names.length === 1 ? 'an unknown environment variable' : 'unknown environment variables'}: ${names.join(', ')}`;
}

export function logIgnored(logger: Pick<Logger, 'warn' | 'debug'>, ignored: Ignored): void {
  const text = unknownVariablesText(ignored);
  if (text !== undefined) logger.warn({ event: 'settings.unknown-variables' }, text);
  const { serviceLinks } = ignored;
  if (serviceLinks.length === 0) return;
  logger.debug(
    { event: 'settings.service-links', variables: serviceLinks },
    'ignored environment variables that Kubernetes made from Services',
  );
}
