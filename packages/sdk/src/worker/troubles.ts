/** What is wrong with this worker, for its operator: one message per topic, all sent with each beat. */
import { LIMITS } from '@drover/protocol';

export type TroubleTopic = 'journal' | 'lease' | 'overdue';

export class Troubles {
  readonly #changed: (text: string | undefined) => void;
  readonly #texts = new Map<TroubleTopic, string>();

  constructor(changed: (text: string | undefined) => void) {
    this.#changed = changed;
  }

  /** Undefined: the trouble is over. */
  set(topic: TroubleTopic, text: string | undefined): void {
    if (this.#texts.get(topic) === text) return;
    if (text === undefined) this.#texts.delete(topic);
    else this.#texts.set(topic, text);
    const all = [...this.#texts.values()].join('; ').slice(0, LIMITS.errorMessageLength);
    this.#changed(all === '' ? undefined : all);
  }
}
