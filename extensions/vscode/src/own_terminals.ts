/**
 * VS Code's own terminals, as a server of the document asks for them: made, typed into, closed.
 *
 * A terminal's id is chosen by the server (the id of its request). Ids are remembered together with the shell's pid, so
 * that terminals which VS Code brings back after a reload of the window are known again.
 */
import * as vscode from "vscode";
import { capture, type Captured } from "./capture";
import { RequestError } from "./messages";

const REMEMBERED = "outlive.ownTerminals";
/** How long a new shell gets to announce its integration; a shell without one is typed into. */
const INTEGRATION_MS = 3_000;
/** Less than the 30 s after which a server gives its request up. */
const CAPTURE_MS = 20_000;

interface OwnTerminal {
  readonly terminal: vscode.Terminal;
  readonly bornAt: number; // ms, performance.now()
  isBusy: boolean; // a command of ours is not known to have ended: what is typed now would be its input
}

export class OwnTerminals implements vscode.Disposable {
  private readonly known = new Map<string, OwnTerminal>();
  private readonly missing: Map<string, number>; // known before the reload, by pid; VS Code brings them back one by one
  private readonly listeners: vscode.Disposable[];
  private readonly life = new AbortController(); // ends with the extension's
  private named = 0;

  constructor(
    private readonly memory: vscode.Memento,
    private readonly log: vscode.LogOutputChannel,
  ) {
    const remembered = Object.entries(this.memory.get<Record<string, number>>(REMEMBERED, {}));
    this.missing = new Map(remembered.filter(([, pid]) => isAlive(pid)));
    this.listeners = [
      vscode.window.onDidOpenTerminal((terminal) => void this.recall([terminal])),
      vscode.window.onDidCloseTerminal((terminal) => this.forget(terminal)),
      vscode.window.onDidEndTerminalShellExecution(({ terminal }) => {
        for (const own of this.known.values()) if (own.terminal === terminal) own.isBusy = false;
      }),
    ];
  }

  /** How many there are. */
  get size(): number {
    return this.known.size;
  }

  /** Find those among these terminals that were known before the window was reloaded. */
  async recall(terminals: readonly vscode.Terminal[]): Promise<void> {
    for (const terminal of terminals) {
      if (this.missing.size === 0) return;
      const pid = await terminal.processId;
      const found = [...this.missing].find(([, known]) => known === pid);
      if (found === undefined) continue;
      this.missing.delete(found[0]);
      if (!this.known.has(found[0])) this.add(found[0], terminal, 0);
    }
  }

  /** Make a terminal and return its name. */
  create(terminalId: string, name?: string): string {
    if (this.known.has(terminalId)) throw new RequestError(`Terminal ${terminalId} already exists`);
    const terminal = vscode.window.createTerminal({ name: name ?? `MCP Terminal ${++this.named}` });
    this.add(terminalId, terminal, performance.now());
    terminal.show(true);
    void this.remember();
    return terminal.name;
  }

  /** Run a command; return what is to be said of it: its output, or only that it was typed. */
  async execute(terminalId: string, command: string): Promise<string> {
    const own = this.find(terminalId);
    own.terminal.show(true);
    // Shell integration never ends a command of several lines, and a busy terminal gives it to what runs there.
    const canCapture = !own.isBusy && !/[\r\n]/.test(command.trimEnd());
    let captured: Captured | undefined;
    if (canCapture) {
      own.isBusy = true;
      const integration = await this.integration(own);
      if (own.terminal.exitStatus !== undefined) throw new RequestError(`Terminal ${terminalId} was closed`);
      if (this.life.signal.aborted) throw new RequestError("The extension was stopped; nothing was typed");
      if (integration !== undefined) captured = await capture(own.terminal, integration, command, CAPTURE_MS, this.life.signal);
      if (captured?.state !== "unfinished") own.isBusy = false;
      if (captured?.state === "closed") throw new RequestError(`Terminal ${terminalId} was closed`);
    }
    if (captured === undefined) own.terminal.sendText(command, true);
    if (captured?.state === "ended") return captured.output;
    this.log.info(`execute in ${terminalId}: no output could be captured`);
    return `Command executed: ${command}\nNote: Direct output capture requires custom pseudoterminal implementation.`;
  }

  /** Close a terminal; its shell ends with it. */
  close(terminalId: string): void {
    this.find(terminalId).terminal.dispose();
    this.known.delete(terminalId);
    void this.remember();
  }

  dispose(): void {
    this.life.abort();
    for (const listener of this.listeners) listener.dispose();
  }

  private find(terminalId: string): OwnTerminal {
    const own = this.known.get(terminalId);
    if (own === undefined) throw new RequestError(`Terminal ${terminalId} not found`);
    return own;
  }

  private add(terminalId: string, terminal: vscode.Terminal, bornAt: number): void {
    this.known.set(terminalId, { terminal, bornAt, isBusy: false });
  }

  private forget(terminal: vscode.Terminal): void {
    for (const [terminalId, own] of this.known) if (own.terminal === terminal) this.known.delete(terminalId);
    void this.remember();
  }

  private async integration(own: OwnTerminal): Promise<vscode.TerminalShellIntegration | undefined> {
    if (own.terminal.shellIntegration !== undefined) return own.terminal.shellIntegration;
    const left = own.bornAt + INTEGRATION_MS - performance.now();
    if (own.bornAt === 0 || left <= 0) return undefined;
    return await new Promise((resolve) => {
      const done = (found: vscode.TerminalShellIntegration | undefined): void => {
        clearTimeout(timer);
        listener.dispose();
        closing.dispose();
        this.life.signal.removeEventListener("abort", stop);
        resolve(found);
      };
      const stop = (): void => done(undefined);
      const timer = setTimeout(() => done(undefined), left);
      this.life.signal.addEventListener("abort", stop);
      const closing = vscode.window.onDidCloseTerminal((one) => one === own.terminal && done(undefined));
      const listener = vscode.window.onDidChangeTerminalShellIntegration((event) => {
        if (event.terminal === own.terminal) done(event.shellIntegration);
      });
    });
  }

  private async remember(): Promise<void> {
    const pids: Record<string, number> = Object.fromEntries(this.missing);
    for (const [terminalId, own] of this.known) {
      const pid = await own.terminal.processId;
      if (pid !== undefined && this.known.has(terminalId)) pids[terminalId] = pid;
    }
    await this.memory.update(REMEMBERED, pids);
  }
}

/** Whether there is such a process: this extension runs where its window's terminals do. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
