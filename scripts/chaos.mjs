/**
 * `npm run chaos`: prepares the repository and the machine for the fault suite and runs it in this process, so that a
 * signal reaches it. It needs root on Linux, for network namespaces; elsewhere it reports that and exits with 2.
 */
import { register } from 'tsx/esm/api';
import { installMissing } from './debian-tools.mjs';
import { setup } from './setup.mjs';

/** Command or file → the Debian package that contains it. */
const TOOLS = { ip: 'iproute2', tc: 'iproute2', iptables: 'iptables', faketime: 'faketime' };
const args = process.argv.slice(2);
if (process.platform !== 'linux' || process.getuid?.() !== 0) {
  console.error(
    'The fault suite puts every server and worker into a network namespace of its own and cuts them off from each\n' +
      `other. That takes Linux and root; this is ${process.platform} as user ${process.getuid?.() ?? 'unknown'}. NOTHING WAS TESTED.`,
  );
  process.exit(2);
}
installTools();
setup();
register();
const { main } = await import('../test/chaos/run.ts');
process.exit(await main(args));

function installTools() {
  const needed = installMissing(TOOLS, 'which the faults are made with');
  if (needed.length === 0) return;
  console.error(
    `The fault suite needs ${needed.map((tool) => `${tool} (${TOOLS[tool]})`).join(', ')}. NOTHING WAS TESTED.`,
  );
  process.exit(2);
}
