/**
 * The hostile peer, a process: some attacks at the same time, one round after the other, at every server in turn. It talks to its parent
 * process: `stop` is answered with the rounds of each attack.
 */
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { ATTACKS, type AttackName } from './attacks.js';

/** Pause between two rounds. */
const PAUSE_MS = 100;
const AT_ONCE = 2;
/** All machines of the run share one processor. This one must not win by taking it from the others. */
const LOWEST_PRIORITY = 19;

type PeerSettings = { urls: string[]; seed: number };

function startPeer({ urls, seed }: PeerSettings): void {
  const names = Object.keys(ATTACKS) as AttackName[];
  const rounds = Object.fromEntries(names.map((name) => [name, 0])) as Record<AttackName, number>;
  let isStopped = false;

  let turn = 0;

  async function attack(): Promise<void> {
    while (!isStopped) {
      const now = turn++;
      const name = names[now % names.length] as AttackName;
      const url = new URL(urls[Math.floor(now / names.length) % urls.length] as string);
      await ATTACKS[name](url, seed + now).catch(() => {});
      rounds[name] += 1;
      await delay(PAUSE_MS);
    }
  }

  setPriority(LOWEST_PRIORITY);
  const attacks = Array.from({ length: AT_ONCE }, attack);
  process.on('message', (message) => {
    if (message !== 'stop') return;
    isStopped = true;
    void Promise.all(attacks).then(() => process.send?.(rounds, () => process.exit(0)));
  });
  process.on('disconnect', () => process.exit(1));
  process.send?.('started');
}

startPeer(JSON.parse(process.env.CHAOS_PEER ?? '{}') as PeerSettings);
