/** `npm run build` */
import { build } from './setup.mjs';

build();
