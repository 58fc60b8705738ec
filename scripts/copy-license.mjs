/**
 * Runs before a package is packed: npm includes a licence only from the package's own folder. An equal one is left alone,
 * because several tests may pack at the same time.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, writeIfChanged } from './setup.mjs';

writeIfChanged(join(process.cwd(), 'LICENSE'), readFileSync(join(root, 'LICENSE'), 'utf8'));
