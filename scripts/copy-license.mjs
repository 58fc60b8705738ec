/** Runs before a package is packed: npm includes a licence only from the package's own folder. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './setup.mjs';

copyFileSync(join(root, 'LICENSE'), join(process.cwd(), 'LICENSE'));
