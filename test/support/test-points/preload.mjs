/**
 * Loaded before the program (`NODE_OPTIONS=--import …/preload.mjs`): the packages' module of failpoints and switches becomes
 * the one beside this file, which obeys the environment. Node loads it in every thread that starts with these options.
 */
import { register } from 'node:module';

register('./replace-module.mjs', import.meta.url);
