/** The version of this package, which all packages of Drover share. */
import { readFileSync } from 'node:fs';

const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

export const VERSION = (manifest as { version: string }).version;
