/** What a worker says of itself when it registers. A test compares it with package.json. */
export const SDK_VERSION = '0.1.0';
