/** The version that a worker registers with. A test compares it with package.json. */
export const SDK_VERSION = '0.1.0';
