/**
 * Workers that only keep their connection and beat, as the SDK's would, many in one process: what is measured is the
 * server, and a thousand processes would not fit beside it.
 */
import { newId, STREAM_PATH, STREAM_VERSION } from '@drover/protocol';
import { WebSocket } from 'ws';

const CONNECTING_AT_ONCE = 50;

export async function openIdleWorkers(url, count) {
  const workers = new Set();
  for (let first = 0; first < count; first += CONNECTING_AT_ONCE) {
    const batch = Array.from({ length: Math.min(CONNECTING_AT_ONCE, count - first) }, (_, n) =>
      connect(url, `idle-${first + n}`, workers),
    );
    await Promise.all(batch);
  }
  return {
    connected: () => workers.size,
    stop() {
      for (const socket of workers) socket.terminate();
    },
  };
}

/** Resolves when the server has welcomed it. */
function connect(url, name, workers) {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${STREAM_PATH}`, { perMessageDeflate: false });
  let beats;
  return new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('close', () => {
      workers.delete(socket);
      clearInterval(beats);
    });
    socket.on('open', () => {
      const identity = { sessionId: newId(), connection: 1, name, host: 'bench', pid: process.pid, sdk: 'bench' };
      const work = { types: ['noop'], slots: 10, window: 10, holds: [] };
      socket.send(JSON.stringify({ kind: 'hello', version: STREAM_VERSION, ...identity, ...work }));
    });
    socket.on('message', (data) => {
      const message = JSON.parse(String(data));
      if (message.kind !== 'welcome') return;
      workers.add(socket);
      let beat = 0;
      beats = setInterval(() => {
        socket.send(JSON.stringify({ kind: 'beat', beat: ++beat, running: 0, received: 0 }));
      }, message.beatMs);
      resolve();
    });
  });
}
