/**
 * The link thread: the connection, its beats and the lease clock, away from the event loop that runs handlers.
 *
 *   main thread ──frames──► outbound ──► connection ──► server
 *               ◄─outbox──  frames as they came, events ◄──┘
 *
 * Invariants: assignments and beats share one authenticated connection, so a beat proves that jobs can arrive; its
 * `received` proves that the main thread handles them. The main thread gets all events in order. While the main
 * thread is blocked, the link thread still sends beats, and moves to another server and sends hello there; it takes
 * no new jobs.
 *
 * The build bundles this file with all that it imports into `thread-code.ts`, as a string, so that the thread also
 * starts in a bundled program. It imports nothing that needs zod: that would triple its start time.
 *
 * When it throws, it ends the process if `onLeaseLost` is `exit`. Otherwise only the thread ends, and the main thread
 * starts another one.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { DroverError, PreviousSession } from '@drover/protocol';
import { killProcesses } from '../isolation/process-table.js';
import { Connection } from './connection.js';
import { Heartbeat } from './heartbeat.js';
import { HeldGrants } from './held-grants.js';
import { elapsedMs, LeaseClock, type Reading, readClocks } from './lease-clock.js';
import { endProcess, LeaseWatch } from './lease-watch.js';
import type { LinkEvent, LinkSettings, ToLinkThread } from './messages.js';
import { Outbound } from './outbound.js';
import { type Patience, patienceWith } from './patience.js';
import { ServerList } from './server-list.js';
import { SharedState } from './shared-state.js';
import type { LinkMessage, Welcome } from './stream-socket.js';

/** Limit for the main thread to report what it holds. After it, the link thread sends hello without the report. */
const HELLO_PATIENCE_MS = 250;
/** Beats that the main thread may miss before the operator is told that it is blocked. */
const MISSED_TURNS = 2;
/** How a frame with assignments begins. */
const ASSIGN = '{"kind":"assign"';

class LinkThread {
  readonly #settings: LinkSettings;
  readonly #port: MessagePort;
  readonly #shared: SharedState;
  readonly #servers: ServerList;
  readonly #connection: Connection;
  readonly #outbound: Outbound;
  readonly #heartbeat: Heartbeat;
  readonly #clock = new LeaseClock();
  readonly #leaseWatch: LeaseWatch;
  readonly #held: HeldGrants;
  #previousSessions: readonly PreviousSession[];
  #clusterId: string | undefined;
  #trouble: string | undefined;
  #outbox: (string | LinkEvent)[] = [];
  #helloTimer: NodeJS.Timeout | undefined;
  /** The hello of the connection that waits for its welcome. */
  #hello: { sentAt: Reading; window: number } | undefined;

  constructor(settings: LinkSettings, port: MessagePort, killIsolated: () => void) {
    this.#settings = settings;
    this.#port = port;
    this.#shared = new SharedState(settings.shared);
    this.#held = new HeldGrants(settings.holds);
    this.#previousSessions = settings.previousSessions;
    this.#clusterId = settings.clusterId;
    this.#trouble = settings.trouble;
    this.#servers = new ServerList(settings.urls);
    this.#connection = new Connection(this.#servers, settings.access, {
      opened: () => this.#opened(),
      welcome: (message, url) => this.#welcomed(message, url),
      frame: (text) => this.#framed(text),
      message: (message) => this.#act(message),
      lost: () => this.#lost(),
      refused: (error, url) => this.#refused(error, url),
      numbered: () => this.#shared.nextConnection(),
      patience: () => this.#patience(),
      log: (level, fields, message) => this.#tell({ kind: 'log', level, fields, message }),
    });
    this.#outbound = new Outbound(this.#connection, this.#shared, () => this.#tell({ kind: 'drained' }));
    this.#heartbeat = new Heartbeat({
      beat: (beat) => this.#beat(beat),
      silent: () => this.#connection.fail('the server sends no beats'),
    });
    this.#leaseWatch = new LeaseWatch({
      clock: this.#clock,
      shared: this.#shared,
      exitsOnLeaseLost: settings.exitsOnLeaseLost,
      stopsItself: settings.stopsItself,
      killIsolated,
      changed: (phase) => this.#tell({ kind: 'lease', phase }),
    });
  }

  start(): void {
    const { lease } = this.#shared;
    if (lease !== undefined) {
      this.#clock.begin(lease.since, lease.leaseMs);
      this.#leaseWatch.look();
    }
    this.#connection.start();
  }

  receive(order: ToLinkThread): void {
    this.#leaseWatch.lookQuickly();
    switch (order.kind) {
      case 'frames':
        this.#outbound.send(order.connection, order.frames);
        return;
      case 'hello':
        if (order.connection === this.#connection.number) this.#sayHello(order.window, order.holds);
        return;
      case 'holds':
        this.#held.tell(order.holds, order.frames);
        return;
      case 'trouble':
        this.#trouble = order.text;
        return;
      case 'fail':
        if (order.connection === this.#connection.number) this.#connection.fail(order.reason);
        return;
      case 'goodbye':
        void this.#connection.sayGoodbye(order.frame).then(() => this.#end());
        return;
      case 'stop':
        void this.#end();
    }
  }

  async #end(): Promise<void> {
    this.#heartbeat.stop();
    clearTimeout(this.#helloTimer);
    await this.#connection.stop();
    this.#leaseWatch.stop();
    this.#port.close();
  }

  #opened(): void {
    this.#hello = undefined;
    this.#tell({ kind: 'helloWanted', connection: this.#connection.number });
    this.#helloTimer = setTimeout(() => this.#sayHello(0, undefined), HELLO_PATIENCE_MS);
  }

  /** Once per connection. `holds` is undefined if the main thread is blocked. */
  #sayHello(window: number, holds: string | undefined): void {
    if (this.#hello !== undefined) return;
    clearTimeout(this.#helloTimer);
    if (holds !== undefined) this.#held.tellAll(holds);
    const previousSessions = this.#previousSessions;
    const grants = this.#held.grants();
    const clusterId = grants.length === 0 ? undefined : this.#clusterId;
    const hello = {
      ...this.#settings.identity,
      connection: this.#connection.number,
      window,
      holds: grants,
      clusterId,
      ...(previousSessions.length === 0 ? {} : { previousSessions }),
    };
    const text = JSON.stringify(hello);
    this.#hello = { sentAt: readClocks(), window };
    this.#connection.sayHello(text);
  }

  #welcomed(welcome: Welcome, url: string): void {
    if (this.#hello === undefined) {
      this.#connection.fail('the server sent a welcome before the hello');
      return;
    }
    const { sentAt, window } = this.#hello;
    this.#previousSessions = [];
    this.#clusterId = welcome.clusterId;
    this.#learn(welcome.servers);
    this.#outbound.open(this.#connection.number);
    this.#tell({ kind: 'welcomed', connection: this.#connection.number, url, window, welcome });
    this.#clock.begin(sentAt, welcome.leaseMs);
    this.#leaseWatch.renewed();
    this.#heartbeat.start(welcome.beatMs);
  }

  #framed(text: string): void {
    this.#leaseWatch.lookQuickly();
    this.#heartbeat.heard();
    this.#tell(text);
    if (!text.startsWith(ASSIGN)) return;
    this.#held.assigned(text);
    this.#askForHolds(false);
  }

  #act(message: LinkMessage): void {
    this.#heartbeat.heard();
    if (message.kind === 'moveOn') {
      this.#connection.moveOn();
      return;
    }
    this.#learn(message.servers);
    this.#clock.answered(message.beat);
    this.#leaseWatch.renewed();
  }

  #learn(servers: readonly string[]): void {
    for (const url of this.#servers.learn(servers)) {
      const message = 'a server announced an address without TLS; it is not used, because this worker was given https';
      this.#tell({ kind: 'log', level: 'warn', fields: { event: 'server.insecure', url }, message });
    }
  }

  #beat(beat: number): void {
    this.#leaseWatch.look();
    const running = this.#shared.running;
    const received = this.#shared.received(this.#connection.number);
    const trouble = this.#troubleAt(beat);
    this.#clock.sending(beat, readClocks());
    const frame = { kind: 'beat', beat, running, received, ...(trouble === undefined ? {} : { trouble }) };
    this.#connection.send(JSON.stringify(frame), () => {});
    this.#tell({ kind: 'beat', beat });
    this.#askForHolds(true);
  }

  #troubleAt(beat: number): string | undefined {
    const missed = beat - 1 - this.#shared.turn;
    if (missed < MISSED_TURNS) return this.#trouble;
    const blocked = `a handler has blocked the event loop for ${missed} beats`;
    return this.#trouble === undefined ? blocked : `${blocked}; ${this.#trouble}`;
  }

  #askForHolds(isBeat: boolean): void {
    const frames = this.#held.ask(isBeat);
    if (frames !== undefined) this.#tell({ kind: 'holdsWanted', frames });
  }

  #lost(): void {
    this.#heartbeat.stop();
    this.#outbound.close();
    this.#tell({ kind: 'lost' });
  }

  #patience(): Patience {
    const { lease } = this.#clock;
    return patienceWith(lease && { leaseMs: lease.leaseMs, ageMs: elapsedMs(lease.since, readClocks()) });
  }

  #refused(error: DroverError, url: string): void {
    this.#tell({ kind: 'refused', url, code: error.code, message: error.message });
  }

  /** Batched over one turn of the event loop: a message to another thread costs more than its content. */
  #tell(item: string | LinkEvent): void {
    if (this.#outbox.push(item) > 1) return;
    setImmediate(() => {
      const items = this.#outbox;
      this.#outbox = [];
      this.#port.postMessage(items);
    });
  }
}

function run(port: MessagePort, settings: LinkSettings): void {
  const { exitsOnLeaseLost, isolatedProcesses, shared } = settings;
  if (exitsOnLeaseLost) {
    process.on('uncaughtException', (error) => {
      // Before the first lease nothing can run, and the main thread reports the error.
      if (new SharedState(shared).lease === undefined) throw error;
      // Without this thread the process would not end in time, so it ends now; its supervisor restarts it.
      endProcess(`the link thread failed: ${error.stack ?? error}`);
    });
  }
  const killIsolated = () => {
    if (isolatedProcesses !== undefined) void killProcesses(isolatedProcesses, 'rerun');
  };
  const thread = new LinkThread(settings, port, killIsolated);
  port.on('message', (order: ToLinkThread) => thread.receive(order));
  thread.start();
}

if (parentPort !== null) run(parentPort, workerData as LinkSettings);
