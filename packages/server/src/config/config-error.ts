/** The configuration cannot be used. The message names the setting, where it came from and what was expected. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
