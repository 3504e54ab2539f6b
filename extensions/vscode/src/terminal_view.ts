/**
 * One terminal of the server's, shown: VS Code draws, the server's shell writes.
 *
 * The server's log is the terminal's history. A view that has lost its connection asks for what comes behind the last
 * byte it has shown: nothing is shown twice and nothing is left out.
 */
import * as vscode from "vscode";
import { type Address, type Ending, Link, type LinkOwner, type LinkState } from "./link";
import type { Shown } from "./messages";
import type { Settings } from "./settings";
import { Position, read, resize, signal, SUBPROTOCOL } from "./terminal_wire";

/** Soon, since somebody looks at it; a server that starts again is there within a second or two. */
const REDIAL_MS = 1_000;
/** How long a terminal that the server has closed gets to say its exit code. */
const LAST_WORDS_MS = 2_000;
/** What a hangup gets before the kill. */
const GRACE_MS = 3_000;
/** VS Code takes everything at once and says nothing: so many bytes, then a pause (about 10 MB/s, what it can draw). */
const BURST_BYTES = 256 * 1024;
const BURST_PAUSE_MS = 25;
/** What is typed before the first connection waits for it; more than this in that moment is no typing. */
const EARLY_CHARACTERS = 64 * 1024;

export class TerminalView implements vscode.Pseudoterminal, LinkOwner {
  private readonly writes = new vscode.EventEmitter<string>();
  private readonly ends = new vscode.EventEmitter<number | void>();
  private readonly names = new vscode.EventEmitter<string>();
  readonly onDidWrite = this.writes.event;
  readonly onDidClose = this.ends.event;
  readonly onDidChangeName = this.names.event;
  /** Whether the shell has ended, not only this view of it. */
  hasEnded = false;

  private readonly link = new Link(this, [SUBPROTOCOL]);
  private readonly position = new Position();
  private decoder = new TextDecoder("utf-8"); // a character may come in two frames, and on two connections
  private size: vscode.TerminalDimensions | undefined;
  private early: string | undefined = ""; // typed before the first connection; undefined since then
  private lastEnding = "";
  private burst = 0; // bytes since the last pause
  private wanted = false; // VS Code shows it and the user has not disconnected

  constructor(
    readonly shown: Shown,
    private readonly settings: Settings,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  // ---- what VS Code asks

  open(size: vscode.TerminalDimensions | undefined): void {
    this.size = size;
    this.resume();
  }

  close(): void {
    this.pause();
  }

  handleInput(text: string): void {
    if (this.link.send(new TextEncoder().encode(text))) return;
    if (this.early !== undefined && this.early.length + text.length <= EARLY_CHARACTERS) this.early += text;
    else this.writes.fire("\x07"); // a bell: nobody has heard it, and nobody will by surprise
  }

  setDimensions(size: vscode.TerminalDimensions): void {
    this.size = size;
    this.link.send(resize(size));
  }

  // ---- what the window's connection to the server asks

  /** Dial, also again. */
  resume(): void {
    if (this.hasEnded) return;
    this.wanted = true;
    this.link.connect();
  }

  /** Hang up; the shell goes on. */
  pause(): void {
    this.wanted = false;
    this.link.disconnect();
  }

  /** The server has closed the terminal: its connection will say with which code, or nothing. */
  expectEnd(): void {
    setTimeout(() => this.end(undefined), LAST_WORDS_MS).unref();
  }

  /** End the shell and what runs in it, as closing a terminal's window does everywhere else. */
  hangUp(): void {
    if (this.hasEnded) return;
    if (!this.link.send(signal("SIGHUP"))) throw new Error(`${this.shown.terminalName} is offline: nothing was sent.`);
    setTimeout(() => this.link.send(signal("SIGKILL")), GRACE_MS).unref(); // to nobody, mostly: the link is idle then
  }

  // ---- the link's owner

  async address(): Promise<Address> {
    return await this.settings.terminal(this.shown.path, this.position.query);
  }

  opened(): void {
    this.lastEnding = "";
    this.burst = 0;
    if (this.size !== undefined) this.link.send(resize(this.size));
    if (this.early) this.link.send(new TextEncoder().encode(this.early));
    this.early = undefined;
  }

  bytes(data: Uint8Array): void {
    this.position.advance(data.length);
    this.burst += data.length;
    if (this.burst >= BURST_BYTES) {
      this.burst = 0;
      this.link.rest(BURST_PAUSE_MS);
    }
    const text = this.decoder.decode(data, { stream: true });
    if (text !== "") this.writes.fire(text);
  }

  text(text: string): void {
    const told = read(text);
    switch (told.type) {
      case "position":
        return this.position.set(told.cursor);
      case "gap":
        this.decoder = new TextDecoder("utf-8");
        this.position.set(told.cursor);
        return this.writes.fire("\r\n\x1b[2m[the server no longer holds a part of the output here]\x1b[0m\r\n");
      case "ended":
        return this.end(told.exitCode);
      case "other":
        this.log.debug(`${this.shown.terminalId}: ignored ${told.text}`);
    }
  }

  ended(ending: Ending): number | undefined {
    const isNews = ending.text !== this.lastEnding; // a server that is away for hours is told once
    this.lastEnding = ending.text;
    this.log[isNews ? "info" : "debug"](`${this.shown.terminalId}: no connection: ${ending.text}`);
    if (ending.status === 404 || ending.status === 410) this.end(undefined);
    return this.wanted && !this.hasEnded ? REDIAL_MS : undefined;
  }

  changed(state: LinkState): void {
    // In the tab's name, since what is written into the terminal would disturb what is drawn there.
    if (state === "dialling") return; // it is what it was
    this.names.fire(state === "open" ? this.shown.terminalName : `${this.shown.terminalName} (offline)`);
  }

  private end(exitCode: number | undefined): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.log.info(`${this.shown.terminalId}: ended, exit code ${exitCode ?? "unknown"}`);
    this.pause();
    this.ends.fire(exitCode);
  }
}
