/**
 * Text from outside, made safe for a terminal: jobs, workers and servers may contain characters that move the cursor,
 * change colours, reorder what is read (bidirectional controls) or cannot be seen (zero width). They are printed as
 * `\u001b`, so that nothing is hidden and nothing acts. All output of the commands passes through these functions.
 */

/** Controls, invisible and format characters, unpaired surrogates, separators of lines. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** They choose between the text and the picture of an emoji, and follow what they act on. */
const VARIATION_SELECTORS = '\ufe0e\ufe0f';
const LAYOUT = '\n\t';

/** For text of several lines. */
export function safeLines(text: string): string {
  const kept = LAYOUT + VARIATION_SELECTORS;
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, (one) => (kept.includes(one) ? one : escaped(one)));
}

/** For one line. */
export function safeLine(text: string): string {
  return safeLines(text).replace(/\s*[\n\t]\s*/g, ' ');
}

/** For JSON. It stays valid, and has the same values. */
export function safeJson(json: string): string {
  return json.replace(UNSAFE, (one) => (one === '\n' ? one : escaped(one)));
}

/** The escape of JSON: one for each half of a surrogate pair. */
function escaped(character: string): string {
  return Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');
}
