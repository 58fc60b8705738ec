/** The server's side of the worker stream, scripted by a test over a real socket. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type Assignment,
  type Grant,
  newId,
  type Outcome,
  type ServerMessage,
  STREAM_PATH,
  STREAM_VERSION,
  type WorkerMessage,
  workerMessageSchema,
} from '@drover/protocol';
import { type WebSocket, WebSocketServer } from 'ws';

type Kind = WorkerMessage['kind'];
type MessageOf<K extends Kind> = Extract<WorkerMessage, { kind: K }>;

/** The cluster of every peer, unless a test gives another. */
export const CLUSTER_ID = newId();

type WelcomeOptions = { clusterId?: string; beatMs?: number; leaseMs?: number; dropped?: Grant[]; servers?: string[] };

/** One connection of the worker. Frames are checked with the protocol's schema and wait to be taken. */
export class PeerConnection {
  readonly closed: Promise<void>;
  readonly #socket: WebSocket;
  readonly #frames: WorkerMessage[] = [];
  #wake: () => void = () => {};
  readonly #outcomes: Outcome[] = [];
  #isObliging = false;
  #isAnsweringBeats = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data) => {
      const frame = workerMessageSchema.parse(JSON.parse(String(data)));
      this.#frames.push(frame);
      if (frame.kind === 'outcomes') this.#outcomes.push(...frame.items);
      if (this.#isObliging) this.#oblige(frame);
      else if (this.#isAnsweringBeats && frame.kind === 'beat') this.#answer(frame.beat);
      this.#wake();
    });
    this.closed = new Promise((resolve) => socket.on('close', () => resolve()));
  }

  send(message: ServerMessage): void {
    this.#socket.send(JSON.stringify(message));
  }

  /** The next frame of one kind; frames of other kinds stay. */
  async take<K extends Kind>(kind: K): Promise<MessageOf<K>> {
    for (;;) {
      const index = this.#frames.findIndex((frame) => frame.kind === kind);
      if (index >= 0) return this.#frames.splice(index, 1)[0] as MessageOf<K>;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Outcomes until there are `count`, over as many frames as it takes. */
  async takeOutcomes(count: number): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    while (outcomes.length < count) outcomes.push(...(await this.take('outcomes')).items);
    return outcomes;
  }

  async welcome(options: WelcomeOptions = {}): Promise<MessageOf<'hello'>> {
    const hello = await this.take('hello');
    this.#sendWelcome(options);
    return hello;
  }

  #sendWelcome({
    clusterId = CLUSTER_ID,
    beatMs = 5000,
    leaseMs = 30_000,
    dropped = [],
    servers = [],
  }: WelcomeOptions = {}): void {
    const version = STREAM_VERSION;
    this.send({ kind: 'welcome', version, serverId: 'peer', clusterId, beatMs, leaseMs, servers, dropped });
  }

  assign(...jobs: Assignment[]): void {
    this.send({ kind: 'assign', jobs });
  }

  ack(items: { id: string; fence: number }[]): void {
    this.send({ kind: 'ack', items: items.map(({ id, fence }) => ({ id, fence })), stale: [] });
  }

  /** Acknowledges all of one frame. */
  ackBatch(batch: number | undefined): void {
    this.send({ kind: 'ack', items: [], stale: [], batch });
  }

  /** Renews the worker's lease with each beat from now on. */
  answerBeats(): void {
    this.#isAnsweringBeats = true;
  }

  #answer(beat: number): void {
    this.send({ kind: 'beat', beat, servers: [] });
  }

  /** From now on answers everything as a healthy server does, beginning with what the test has left. */
  oblige(): void {
    this.#isObliging = true;
    this.ack(this.#outcomes);
    for (const frame of this.#frames) this.#oblige(frame);
  }

  #oblige(frame: WorkerMessage): void {
    if (frame.kind === 'hello') this.#sendWelcome();
    else if (frame.kind === 'beat') this.#answer(frame.beat);
    else if (frame.kind === 'outcomes') this.ack(frame.items);
    else if (frame.kind === 'bye') this.close();
  }

  cut(): void {
    this.#socket.terminate();
  }

  close(): void {
    this.#socket.close();
  }
}

export class StreamPeer {
  readonly #http = createServer();
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #all: PeerConnection[] = [];
  readonly #untaken: PeerConnection[] = [];
  #isObliging = false;
  #wake: () => void = () => {};
  /** Answers the handshake with this status and body instead of a connection. */
  refusal: { status: number; body: unknown } | undefined;

  async listen(port = 0): Promise<this> {
    this.#http.on('upgrade', (request, socket, head) => {
      if (request.url !== STREAM_PATH || this.refusal) {
        const { status, body } = this.refusal ?? { status: 404, body: {} };
        const text = JSON.stringify(body);
        socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: ${text.length}\r\nconnection: close\r\n\r\n${text}`);
        return;
      }
      this.#sockets.handleUpgrade(request, socket, head, (accepted) => {
        const connection = new PeerConnection(accepted);
        if (this.#isObliging) connection.oblige();
        this.#all.push(connection);
        this.#untaken.push(connection);
        this.#wake();
      });
    });
    await new Promise<void>((resolve) => this.#http.listen(port, '127.0.0.1', resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** The next connection a worker makes. */
  async connection(): Promise<PeerConnection> {
    for (;;) {
      const next = this.#untaken.shift();
      if (next) return next;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Lets workers finish by themselves: whatever they need is answered. */
  oblige(): void {
    this.refusal = undefined;
    this.#isObliging = true;
    for (const connection of this.#all) connection.oblige();
  }

  /** To every connection that stands. */
  sendAll(message: ServerMessage): void {
    for (const socket of this.#sockets.clients) socket.send(JSON.stringify(message));
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#http.closeAllConnections();
    await new Promise<void>((resolve) => this.#http.close(() => resolve()));
  }
}

export function assignment(type: string, payload: unknown, changes: Partial<Assignment> = {}): Assignment {
  const plain = { queue: 'default', attempt: 1, maxAttempts: 10 };
  return { id: newId(), fence: 1, type, payload, ...plain, ...changes };
}
