/**
 * The server's terminals that are shown in this window: which there are, which have a tab, which were detached here.
 *
 * A tab is a view and nothing more: closing it, reloading the window or losing the server ends no shell. Only
 * `end` does, and it asks the server.
 */
import * as vscode from "vscode";
import type { Showing } from "./bridge";
import { type Message, shown, type Shown } from "./messages";
import { TerminalView } from "./terminal_view";
import type { Settings } from "./settings";

const DETACHED = "outlive.detached";
const SAID = "outlive.saidThatDetached";

/** Asks the server something (requests.ts). */
export type Ask = (type: string, data: Readonly<Record<string, unknown>>) => Promise<Message>;

export class ShownTerminals implements Showing, vscode.Disposable, vscode.TerminalProfileProvider {
  private readonly listed = new Map<string, Shown>();
  private readonly views = new Map<string, TerminalView>();
  private readonly listener: vscode.Disposable;
  private creating = 0; // requests of ours under way: what the server shows meanwhile may be their answer
  private deferred: Shown[] = [];

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly settings: Settings,
    private readonly log: vscode.LogOutputChannel,
    private readonly ask: Ask,
  ) {
    this.listener = vscode.window.onDidCloseTerminal((terminal) => this.tabClosed(terminal));
  }

  /** How many of the server's terminals have a tab here. */
  get size(): number {
    return this.views.size;
  }

  /** Those of the server's that have no tab here. */
  get hidden(): readonly Shown[] {
    return [...this.listed.values()].filter(({ terminalId }) => !this.views.has(terminalId));
  }

  // ---- what the server says

  list(terminals: readonly Shown[]): void {
    this.listed.clear();
    for (const one of terminals) this.listed.set(one.terminalId, one);
    const detached = this.detached.filter((terminalId) => this.listed.has(terminalId));
    void this.context.workspaceState.update(DETACHED, detached);
    for (const one of terminals) if (!detached.includes(one.terminalId)) this.open(one, false);
  }

  show(terminal: Shown): void {
    if (this.creating > 0) this.deferred.push(terminal);
    else this.open(terminal, true);
  }

  closed(terminalId: string): void {
    this.listed.delete(terminalId);
    this.deferred = this.deferred.filter((one) => one.terminalId !== terminalId);
    this.views.get(terminalId)?.expectEnd();
  }

  // ---- what the user wants

  /** Open a terminal of the server's in a tab. */
  async create(): Promise<void> {
    vscode.window.createTerminal(await this.created()).show();
  }

  async provideTerminalProfile(): Promise<vscode.TerminalProfile> {
    return new vscode.TerminalProfile(await this.created());
  }

  /** Give a terminal of the server's a tab again, or bring its tab to the front. */
  reveal(terminal: Shown): void {
    this.open(terminal, true);
  }

  /** The server's terminal that is in front, if one of them is. */
  get active(): TerminalView | undefined {
    return vscode.window.activeTerminal && this.viewOf(vscode.window.activeTerminal);
  }

  get all(): readonly TerminalView[] {
    return [...this.views.values()];
  }

  /** Let the views dial (again), or hang up; the tabs stay. */
  follow(isConnected: boolean): void {
    for (const view of this.views.values()) isConnected ? view.resume() : view.pause();
  }

  dispose(): void {
    this.listener.dispose();
    for (const view of this.views.values()) view.close();
  }

  // ---- tabs

  private async created(): Promise<vscode.ExtensionTerminalOptions> {
    this.creating += 1;
    try {
      const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
      const data = folder?.scheme === "file" ? { cwd: folder.fsPath } : {};
      const answer = await this.ask("create_terminal", data);
      const { terminalId } = answer.data;
      const path = `/ws/terminal/${encodeURIComponent(String(terminalId))}`;
      const terminal = shown({ path, ...answer.data });
      if (terminal === undefined) throw new Error("The server has answered without a terminal.");
      this.listed.set(terminal.terminalId, terminal);
      return this.options(terminal);
    } finally {
      this.creating -= 1;
      if (this.creating === 0) for (const one of this.deferred.splice(0)) this.open(one, false);
    }
  }

  private open(terminal: Shown, inFront: boolean): void {
    this.listed.set(terminal.terminalId, terminal);
    if (inFront) void this.attach(terminal.terminalId);
    const tab = this.views.has(terminal.terminalId)
      ? vscode.window.terminals.find((one) => this.viewOf(one)?.shown.terminalId === terminal.terminalId)
      : vscode.window.createTerminal(this.options(terminal));
    if (inFront) tab?.show(true);
  }

  private options(terminal: Shown): vscode.ExtensionTerminalOptions {
    const view = new TerminalView(terminal, this.settings, this.log);
    this.views.set(terminal.terminalId, view);
    return { name: terminal.terminalName, pty: view, iconPath: new vscode.ThemeIcon("server-process") };
  }

  private viewOf(terminal: vscode.Terminal): TerminalView | undefined {
    const options = terminal.creationOptions;
    return "pty" in options && options.pty instanceof TerminalView ? options.pty : undefined;
  }

  private tabClosed(terminal: vscode.Terminal): void {
    const view = this.viewOf(terminal);
    if (view === undefined) return;
    const { terminalId, terminalName } = view.shown;
    view.close();
    if (this.views.get(terminalId) === view) this.views.delete(terminalId);
    if (view.hasEnded) this.listed.delete(terminalId);
    // A window that closes or reloads wants to find its terminals again; only the user's own click detaches.
    else if (terminal.exitStatus?.reason === vscode.TerminalExitReason.User) void this.detach(terminalId, terminalName);
  }

  // ---- what was detached here

  private get detached(): readonly string[] {
    return this.context.workspaceState.get<string[]>(DETACHED, []);
  }

  private async attach(terminalId: string): Promise<void> {
    await this.context.workspaceState.update(DETACHED, this.detached.filter((one) => one !== terminalId));
  }

  private async detach(terminalId: string, name: string): Promise<void> {
    this.log.info(`detached from ${terminalId}`);
    await this.context.workspaceState.update(DETACHED, [...this.detached.filter((one) => one !== terminalId), terminalId]);
    if (this.context.globalState.get<boolean>(SAID, false)) return;
    await this.context.globalState.update(SAID, true);
    const text = `The shell of "${name}" goes on at the server. "outlive: Show Terminal" brings it back, "outlive: End Terminal" ends a shell.`;
    const chosen = await vscode.window.showInformationMessage(text, "Show It Again");
    const terminal = this.listed.get(terminalId);
    if (chosen !== undefined && terminal !== undefined) this.open(terminal, true);
  }
}
