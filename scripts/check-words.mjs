/**
 * A part of `npm run lint`: finds words that a reader who is not a native speaker has to look up, in tracked
 * documentation and sources, and names the usual term. Exits with 1 if it finds any.
 *
 * It reads whole files instead of only comments and strings: an identifier with such a word needs a better name, too.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const WORDS = [
  ['anew', 'again'],
  ['for ever', 'forever'],
  ['mend(?:s|ed|ing)?', 'fix, repair'],
  ['(?:go|goes|going|gone|went) on(?! (?:a|an|the|to|its|top)\\b)', 'continue, resume'],
  ['(?:stand|stands|standing|stood) still', 'frozen, stopped'],
  ['given up', 'declared dead, abandoned'],
  ['nobody', 'no server, no worker, no user'],
  ['somebody', 'a user, another process'],
  ['whoever', 'the process that, a user who'],
  ['thereby', 'so'],
  ['(?:at|for|from|in|until) th(?:e|is|at) (?:same )?moment', 'at this time, now'],
  ['moment of(?= (?:a|an|its|the|this)\\b)', 'time of'],
  ['a look at', 'a check of, a lookup of'],
  ['well again', 'recovered'],
  ['an? (?:row|line|job|file|array|column) an? (?:server|worker|job|second|minute|row|column|payload)', 'one … per …'],
  ['(?:is|are) no (?:JSON|UUID|number|text|string|answer|secret)', 'not …'],
  ['what (?:becomes|became) of', 'what happens to, the result of'],
];
/** A sentence that starts with "Of": at the beginning of a paragraph or comment, or after a full stop. */
const FRONTED = /(?:^|\n\s*\n|\/\*\*?\s+|\/\/ |[.!?] +)(Of (?!course\b)[a-z])/g;

/** Between two words: blanks, or one line break. */
const SPACE = '(?:[ \\t]+|[ \\t]*\\n[ \\t]*)';

/** A word as an example, a name or a quotation: path → words. */
const ALLOWED = new Map([['scripts/check-words.mjs', WORDS.map(([word]) => word)]]);

const patterns = WORDS.map(([word, instead]) => ({
  word,
  instead,
  pattern: new RegExp(`(?<![\\w/-])(${word.replaceAll(' ', SPACE)})(?![\\w-])`, 'gi'),
}));

const files = execFileSync('git', ['ls-files', '*.md', '*.ts', '*.mjs', '*.sql'], { encoding: 'utf8' })
  .trim()
  .split('\n');
const findings = files.flatMap(findIn);
for (const finding of findings) console.log(finding);
if (findings.length > 0) process.exitCode = 1;

function findIn(file) {
  const text = readFileSync(file, 'utf8');
  // A phrase may continue on the next line of a comment; spaces for the marks keep all positions.
  const joined = text.replace(/\n[ \t]*(?:\*(?!\/)|\/\/|--)[ \t]/g, (mark) => `\n${' '.repeat(mark.length - 1)}`);
  const allowed = ALLOWED.get(file) ?? [];
  const found = patterns
    .filter(({ word }) => !allowed.includes(word))
    .flatMap(({ pattern, instead }) => [...joined.matchAll(pattern)].map((match) => ({ match, instead })));
  const fronted = [...joined.matchAll(FRONTED)].map((match) => ({ match, instead: 'start with the subject' }));
  return [...found, ...fronted]
    .filter(({ match }) => !isName(joined, match))
    .map(({ match, instead }) => ({ at: match.index + match[0].indexOf(match[1]), said: match[1], instead }))
    .sort((a, b) => a.at - b.at)
    .map(({ at, said, instead }) => `${file}:${lineAt(text, at)}: "${said.replace(/\s+/g, ' ')}" → "${instead}"`);
}

/** A word that is the whole text between two quotes is a name, such as the user `nobody`. */
function isName(text, { index, 0: said }) {
  const quote = text[index - 1];
  return ['`', "'"].includes(quote) && text[index + said.length] === quote;
}

function lineAt(text, at) {
  return text.slice(0, at).split('\n').length;
}
