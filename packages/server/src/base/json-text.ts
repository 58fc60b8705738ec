/** An answer that is JSON already: stored JSON is not parsed and written again on its way to a caller. */
export class JsonText {
  constructor(readonly text: string | Buffer) {}
}

export function jsonOf(answer: unknown): string | Buffer {
  return answer instanceof JsonText ? answer.text : JSON.stringify(answer);
}
