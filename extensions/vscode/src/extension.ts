/** Puts the parts together, and holds the commands and the status bar. What the parts do is theirs. */
import * as vscode from "vscode";
import { Bridge } from "./bridge";
import type { Ending, LinkState } from "./link";
import { OwnTerminals } from "./own_terminals";
import { Settings } from "./settings";
import { ShownTerminals } from "./shown_terminals";

/** How long one of our servers may take to say that it is one, once connected. */
const SAYS_SO_MS = 2000;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("outlive", { log: true });
  const settings = new Settings(context.secrets);
  const own = new OwnTerminals(context.workspaceState, log);
  const status = vscode.window.createStatusBarItem("outlive.status", vscode.StatusBarAlignment.Left);
  const shown: ShownTerminals = new ShownTerminals(context, settings, log, (type, data) => bridge.requests.ask(type, data));
  const bridge = new Bridge(settings, own, shown, log, (state) => showState(status, state, settings.url));
  const commands = new Commands(settings, bridge, own, shown, log);
  status.command = "outlive.status";
  showState(status, bridge.state, settings.url);
  status.show();
  context.subscriptions.push(
    log,
    own,
    status,
    shown,
    { dispose: () => bridge.disconnect() },
    vscode.window.registerTerminalProfileProvider("outlive.terminal", shown),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("outlive.url") || event.affectsConfiguration("outlive.token")) commands.redial();
    }),
    ...commands.register(),
  );
  await own.recall(vscode.window.terminals);
  if (settings.autoConnect) void bridge.connect();
}

export function deactivate(): void {
  // VS Code disposes of the subscriptions: timers, sockets and listeners go with them.
}

function showState(item: vscode.StatusBarItem, state: LinkState, url: string): void {
  const icons = { open: "plug", dialling: "sync~spin", waiting: "debug-disconnect", idle: "debug-disconnect" };
  const words = { open: "connected to", dialling: "connecting to", waiting: "will connect again to", idle: "not connected to" };
  item.text = `$(${icons[state]}) outlive`;
  item.tooltip = `outlive: ${words[state]} ${url}`;
}

class Commands {
  constructor(
    private readonly settings: Settings,
    private readonly bridge: Bridge,
    private readonly own: OwnTerminals,
    private readonly shown: ShownTerminals,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  register(): vscode.Disposable[] {
    const add = (name: string, work: () => Promise<void>): vscode.Disposable =>
      vscode.commands.registerCommand(`outlive.${name}`, async () => {
        try {
          await work();
        } catch (error) {
          this.log.warn(`${name}: ${String(error)}`);
          void vscode.window.showErrorMessage(`outlive: ${error instanceof Error ? error.message : String(error)}`);
        }
      });
    return [
      add("connect", () => this.connect()),
      add("disconnect", () => this.disconnect()),
      add("status", () => this.status()),
      add("newTerminal", () => this.newTerminal()),
      add("showTerminal", () => this.showTerminal()),
      add("endTerminal", () => this.endTerminal()),
      add("setToken", () => this.setToken()),
    ];
  }

  /** Use a changed address or token. */
  redial(): void {
    if (this.bridge.state === "idle") return;
    this.bridge.disconnect();
    this.shown.follow(false);
    void this.bridge.connect();
    this.shown.follow(true);
  }

  private async connect(): Promise<void> {
    this.shown.follow(true);
    const ending = await this.bridge.connect();
    if (ending === undefined) void vscode.window.showInformationMessage(`outlive: connected to ${this.settings.url}`);
    else void this.offer(ending);
  }

  private async offer(ending: Ending): Promise<void> {
    const needsToken = ending.status === 401 || ending.status === 403;
    const text = `outlive: no connection to ${this.settings.url}: ${ending.text}`;
    const chosen = await vscode.window.showErrorMessage(text, needsToken ? "Set Token" : "Show Log");
    if (chosen === "Set Token") await this.setToken();
    else if (chosen === "Show Log") this.log.show();
  }

  private async disconnect(): Promise<void> {
    this.bridge.disconnect();
    this.shown.follow(false);
  }

  private async status(): Promise<void> {
    const { state } = this.bridge;
    const isConnected = state === "open";
    const kind = isConnected ? (this.bridge.isOutlive ? ", an outlive server" : ", a server of another kind") : "";
    const words = isConnected ? "connected to" : state === "idle" ? "not connected to" : "trying to connect to";
    const text = `outlive: ${words} ${this.settings.url}${kind}; ${this.shown.size} of its terminals shown, ${this.own.size} of VS Code's in its hands.`;
    const action = state === "idle" ? "Connect" : "Disconnect";
    const chosen = await vscode.window.showInformationMessage(text, action, "Show Log");
    if (chosen === "Connect") await this.connect();
    else if (chosen === "Disconnect") await this.disconnect();
    else if (chosen === "Show Log") this.log.show();
  }

  private async newTerminal(): Promise<void> {
    await this.mustBeOurs();
    await this.shown.create();
  }

  private async showTerminal(): Promise<void> {
    await this.mustBeOurs();
    const picks = this.shown.hidden.map((one) => ({ label: one.terminalName, description: one.terminalId, one }));
    if (picks.length === 0) {
      void vscode.window.showInformationMessage("outlive: every terminal of the server is shown in this window.");
      return;
    }
    const picked = await vscode.window.showQuickPick(picks, { placeHolder: "Which terminal?" });
    if (picked !== undefined) this.shown.reveal(picked.one);
  }

  private async endTerminal(): Promise<void> {
    await this.mustBeOurs();
    const view = this.shown.active ?? (await this.picked());
    view?.hangUp(); // by its own connection; the server then tells everybody that it has ended
  }

  private async picked(): Promise<ShownTerminals["active"]> {
    const picks = this.shown.all.map((view) => ({ label: view.shown.terminalName, description: view.shown.terminalId, view }));
    if (picks.length === 0) throw new Error("No terminal of the server is shown in this window.");
    return (await vscode.window.showQuickPick(picks, { placeHolder: "End which terminal's shell?" }))?.view;
  }

  private async setToken(): Promise<void> {
    const prompt = "Token for the outlive server; kept in VS Code's secret storage. Empty: forget it.";
    const token = await vscode.window.showInputBox({ prompt, password: true, ignoreFocusOut: true });
    if (token === undefined) return;
    await this.settings.keepToken(token.trim());
    if (this.bridge.state === "idle") await this.connect();
    else this.redial();
  }

  /** Let a verb pass at one of our servers, which says so in its first message: it may be on its way. */
  private async mustBeOurs(): Promise<void> {
    const begun = Date.now();
    while (this.bridge.state === "open" && !this.bridge.isOutlive && Date.now() - begun < SAYS_SO_MS) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    if (this.bridge.state !== "open") throw new Error(`Not connected to ${this.settings.url}: "outlive: Connect".`);
    if (!this.bridge.isOutlive) throw new Error(`The server at ${this.settings.url} has no terminals of its own.`);
  }
}
