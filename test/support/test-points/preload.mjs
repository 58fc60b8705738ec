/**
 * Loaded before the program (`NODE_OPTIONS=--import …/preload.mjs`): replaces the packages' module of failpoints and
 * switches by the one beside this file, which reads the environment. Node loads it in every thread that starts with
 * these options.
 */
import { register } from 'node:module';

register('./replace-module.mjs', import.meta.url);
