/** More edits than this make another word, however long it is. */
const MAX_DISTANCE = 4;

/** "Did you mean …?": the known word nearest to an unknown one, or undefined if none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  // a third of the word; two edits in a short one, but never more than half of it
  const limit = Math.min(Math.max(2, Math.floor(word.length / 3)), Math.floor(word.length / 2), MAX_DISTANCE);
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(change, (previous[j] as number) + 1, (current[j - 1] as number) + 1));
    }
    previous = current;
  }
  return previous[b.length] as number;
}
