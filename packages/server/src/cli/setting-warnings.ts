/** Reports, once per command, what is wrong with the sources of the settings and was ignored. */
import type { Logger } from 'pino';
import type { ReadSettings } from '../config/read-settings.js';

type Findings = Pick<ReadSettings, 'ignored' | 'warnings'>;

/** For a command that prints its answer. */
export function warningTexts({ ignored, warnings }: Findings): string[] {
  const unknown = unknownVariablesText(ignored);
  return unknown === undefined ? warnings : [...warnings, unknown];
}

/** For a command that logs. */
export function logWarnings(logger: Pick<Logger, 'warn' | 'debug'>, { ignored, warnings }: Findings): void {
  for (const warning of warnings) logger.warn({ event: 'settings.file' }, warning);
  const text = unknownVariablesText(ignored);
  if (text !== undefined) logger.warn({ event: 'settings.unknown-variables' }, text);
  const { serviceLinks } = ignored;
  if (serviceLinks.length === 0) return;
  logger.debug(
    { event: 'settings.service-links', variables: serviceLinks },
    'ignored environment variables that Kubernetes made from Services',
  );
}

/** Undefined if there are none. */
function unknownVariablesText({ unknown }: ReadSettings['ignored']): string | undefined {
  if (unknown.length === 0) return undefined;
  const names = unknown.map(({ name, suggestion }) => (suggestion ? `${name} (did you mean ${suggestion}?)` : name));
  return `ignored ${names.length === 1 ? 'an unknown environment variable' : 'unknown environment variables'}: ${names.join(', ')}`;
}
