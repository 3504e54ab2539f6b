/**
 * One WebSocket that is dialled, watched and, where its owner wants it, dialled again.
 *
 * Knows nothing of what is said over it. A socket that has been given up can do nothing any more: every event is held
 * against the socket that is current.
 */
import { WebSocket, type ClientOptions, type RawData } from "ws";

/** Where to dial, and with which request headers. */
export interface Address {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** idle: nothing is wanted; waiting: dialled again after a pause. */
export type LinkState = "idle" | "dialling" | "open" | "waiting";

/** Why a connection ended or never was: the HTTP status it was refused with, or the close code, and a sentence. */
export interface Ending {
  readonly status: number | undefined;
  readonly code: number;
  readonly text: string;
}

/** What a link's owner does. All are called from the event loop; none may throw. */
export interface LinkOwner {
  /** Where to dial now; asked anew each time, since settings and cursors change. */
  address(): Promise<Address>;
  opened(): void;
  text(text: string): void;
  bytes(data: Uint8Array): void;
  /** A connection ended, or could not be had. Return after how many milliseconds to dial again; undefined: not. */
  ended(ending: Ending): number | undefined;
  changed(state: LinkState): void;
}

const PROTOCOL_OPTIONS: ClientOptions = {
  perMessageDeflate: false, // loopback mostly; it costs more than it saves
  handshakeTimeout: 10_000,
  maxPayload: 16 * 1024 * 1024, // a server that sends more in one message is out of order
};
/** Two of these without a sign of life, and the other end is taken for dead. */
const WATCH_MS = 30_000;

export class Link {
  private state: LinkState = "idle";
  private socket: WebSocket | undefined;
  private redial: NodeJS.Timeout | undefined;
  private watch: NodeJS.Timeout | undefined;
  private round = 0; // of dialling: what an older round finds out is nobody's business any more
  private alive = false;

  constructor(
    private readonly owner: LinkOwner,
    private readonly subprotocols: readonly string[] = [],
  ) {}

  /** Whether something can be sent. */
  get isOpen(): boolean {
    return this.state === "open";
  }

  /** What it is doing. */
  get current(): LinkState {
    return this.state;
  }

  /** Dial, unless that is under way or done. */
  connect(): void {
    if (this.state === "dialling" || this.state === "open") return;
    this.forget();
    void this.dial(++this.round);
  }

  /** Close and dial no more. */
  disconnect(): void {
    this.round += 1;
    const socket = this.socket;
    this.forget();
    this.become("idle");
    if (socket === undefined) return;
    socket.close(1000);
    // A peer that does not answer the close must not hold the socket.
    setTimeout(() => socket.terminate(), 1000).unref();
  }

  /** Send one frame, a text or bytes; false when there is no connection and nothing was sent. */
  send(content: string | Uint8Array): boolean {
    if (this.state !== "open" || this.socket === undefined) return false;
    this.socket.send(content);
    return true;
  }

  /** Read nothing for a while; what comes waits at its sender. */
  rest(milliseconds: number): void {
    const socket = this.socket;
    if (socket === undefined || socket.isPaused) return;
    socket.pause();
    setTimeout(() => socket.resume(), milliseconds);
  }

  private async dial(round: number): Promise<void> {
    this.become("dialling");
    let address: Address;
    try {
      address = await this.owner.address();
      if (round !== this.round) return;
      this.listen(new WebSocket(address.url, [...this.subprotocols], { ...PROTOCOL_OPTIONS, headers: address.headers }));
    } catch (error) {
      if (round === this.round) this.over({ status: undefined, code: 1006, text: String(error) });
    }
  }

  private listen(socket: WebSocket): void {
    this.socket = socket;
    let status: number | undefined;
    let text = "";
    const current = (): boolean => this.socket === socket;
    socket.on("unexpected-response", (_request, response) => {
      status = response.statusCode;
      text = `refused with ${status}`;
      response.resume();
      socket.terminate();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      // An AggregateError (both IP families refused) has a code and no message.
      if (text === "") text = error.message || error.code || error.name;
    });
    socket.on("open", () => {
      if (!current()) return;
      this.become("open");
      this.keepWatch(socket);
      this.owner.opened();
    });
    socket.on("pong", () => (this.alive = true));
    socket.on("message", (data: RawData, isBinary: boolean) => {
      if (!current()) return;
      this.alive = true;
      const whole = Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer);
      if (isBinary) this.owner.bytes(whole);
      else this.owner.text(whole.toString("utf8"));
    });
    socket.on("close", (code, reason) => {
      if (!current()) return;
      this.over({ status, code, text: text || reason.toString() || `closed with ${code}` });
    });
  }

  private keepWatch(socket: WebSocket): void {
    this.alive = true;
    this.watch = setInterval(() => {
      if (!this.alive) return socket.terminate();
      this.alive = false;
      socket.ping();
    }, WATCH_MS);
  }

  private over(ending: Ending): void {
    this.forget();
    const round = this.round;
    const pause = this.owner.ended(ending);
    if (round !== this.round) return; // the owner has decided otherwise meanwhile
    if (pause === undefined) return this.become("idle");
    this.become("waiting");
    this.redial = setTimeout(() => this.connect(), pause);
  }

  private forget(): void {
    clearTimeout(this.redial);
    clearInterval(this.watch);
    this.socket = undefined;
  }

  private become(state: LinkState): void {
    if (this.state === state) return;
    this.state = state;
    this.owner.changed(state);
  }
}
