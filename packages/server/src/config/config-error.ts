/** The configuration is invalid. The message names the setting, its source and what was expected. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
