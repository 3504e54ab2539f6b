/**
 * The terminal bridge's end in VS Code: answers the document's four requests, and takes what a server of ours adds.
 *
 * A request is answered on the connection it came on, or not at all. Nothing that comes in ends the connection.
 */
import type * as vscode from "vscode";
import { type Address, type Ending, Link, type LinkOwner, type LinkState } from "./link";
import { type Message, optional, read, required, RequestError, shown, shownList, write } from "./messages";
import type { OwnTerminals } from "./own_terminals";
import { Requests } from "./requests";
import type { Settings } from "./settings";
import type { Shown } from "./messages";

/** The document's pause before it is dialled again. */
const REDIAL_MS = 5_000;

/** Who keeps the terminals that the server shows. */
export interface Showing {
  list(terminals: readonly Shown[]): void;
  show(terminal: Shown): void;
  closed(terminalId: string): void;
}

export class Bridge implements LinkOwner {
  /** What is asked of the server. */
  readonly requests: Requests;
  /** Whether the server has shown itself to be one of ours. */
  isOutlive = false;
  private readonly link: Link;
  private lastEnding = "";
  private connection = 0; // counts the connections: an answer belongs to one
  private attempts: ((ending: Ending | undefined) => void)[] = [];

  constructor(
    private readonly settings: Settings,
    private readonly own: OwnTerminals,
    private readonly showing: Showing,
    private readonly log: vscode.LogOutputChannel,
    private readonly tell: (state: LinkState) => void,
  ) {
    this.link = new Link(this);
    this.requests = new Requests((text) => this.link.send(text));
  }

  get state(): LinkState {
    return this.link.current;
  }

  /** Dial; resolve to undefined when connected, or to why not (autoConnect may then go on trying). */
  async connect(): Promise<Ending | undefined> {
    if (this.link.isOpen) return undefined;
    return await new Promise((resolve) => {
      this.attempts.push(resolve);
      this.link.connect();
    });
  }

  /** Hang up and stay so. */
  disconnect(): void {
    this.link.disconnect();
    this.gone({ status: undefined, code: 1000, text: "disconnected" });
  }

  // ---- the link's owner

  async address(): Promise<Address> {
    this.log[this.lastEnding === "" ? "info" : "debug"](`connecting to ${this.settings.url}`);
    return await this.settings.bridge();
  }

  opened(): void {
    this.connection += 1;
    this.lastEnding = "";
    this.log.info("connected");
    this.attempted(undefined);
  }

  ended(ending: Ending): number | undefined {
    const isNews = ending.text !== this.lastEnding; // a server that is away for hours is told once
    this.lastEnding = ending.text;
    this.log[isNews ? "info" : "debug"](`no connection: ${ending.text}`);
    this.gone(ending);
    return this.settings.autoConnect ? REDIAL_MS : undefined;
  }

  changed(state: LinkState): void {
    this.tell(state);
  }

  bytes(): void {
    this.log.warn("ignored: a binary frame");
  }

  text(text: string): void {
    const reading = read(text);
    if ("problem" in reading) return this.log.warn(`ignored: ${reading.problem}`);
    const { message } = reading;
    this.log.debug(`received ${message.type} ${message.id}`);
    try {
      this.take(message);
    } catch (error) {
      this.log.warn(`ignored: ${message.type} ${message.id}: ${String(error)}`);
    }
  }

  private take(message: Message): void {
    switch (message.type) {
      case "ping":
        return this.say("pong", message.id);
      case "create_terminal":
        return this.answer(message, "terminal_created", async () => this.create(message));
      case "execute":
        return this.answer(message, "success", async () => await this.execute(message));
      case "close_terminal":
        return this.answer(message, "success", async () => this.close(message));
      case "terminals":
        this.isOutlive = true;
        this.showing.list(shownList(message));
        return this.tell(this.state);
      case "show_terminal": {
        const terminal = shown(message.data);
        if (terminal === undefined) throw new RequestError("not a terminal");
        return this.showing.show(terminal);
      }
      case "terminal_closed":
        return this.showing.closed(required(message, "terminalId"));
      case "terminal_created":
      case "success":
      case "error":
        if (!this.requests.settle(message)) this.log.warn(`ignored: ${message.type} ${message.id} answers nothing of ours`);
        return;
      default:
        this.log.warn(`ignored: unknown type ${message.type.slice(0, 40)}`);
    }
  }

  // ---- the document's requests

  private create(message: Message): Readonly<Record<string, string>> {
    const terminalName = this.own.create(message.id, optional(message, "terminalName"));
    return { terminalId: message.id, terminalName };
  }

  private async execute(message: Message): Promise<Readonly<Record<string, string>>> {
    const command = required(message, "command");
    const named = optional(message, "terminalId");
    if (named === undefined) this.own.create(message.id);
    return { output: await this.own.execute(named ?? message.id, command) };
  }

  private close(message: Message): Readonly<Record<string, string>> {
    const terminalId = required(message, "terminalId");
    this.own.close(terminalId);
    return { output: `Terminal ${terminalId} closed` };
  }

  /** Do what is asked and answer it. What it does before its first await is done before the next message is read. */
  private answer(message: Message, type: string, work: () => Promise<Readonly<Record<string, string>>>): void {
    const connection = this.connection;
    work().then(
      (data) => this.say(type, message.id, data, connection),
      (error: unknown) => {
        if (!(error instanceof RequestError)) this.log.error(error instanceof Error ? error : String(error));
        const text = error instanceof Error ? error.message : String(error);
        this.say("error", message.id, { error: text }, connection);
      },
    );
  }

  private say(type: string, id: string, data?: Readonly<Record<string, string>>, connection = this.connection): void {
    const isSent = connection === this.connection && this.link.send(write(type, id, data));
    this.log.debug(`${isSent ? "sent" : "not sent, the connection is gone:"} ${type} ${id}`);
  }

  // ---- ends

  private gone(ending: Ending): void {
    this.isOutlive = false;
    this.requests.abandon();
    this.attempted(ending);
  }

  private attempted(ending: Ending | undefined): void {
    const attempts = this.attempts;
    this.attempts = [];
    for (const resolve of attempts) resolve(ending);
  }
}
