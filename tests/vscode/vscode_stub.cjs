// The part of VS Code's API that the extension uses, in plain Node. Its own terminals are real bash processes.
//
// As strict as the original where that matters: what a pseudoterminal writes before it was opened is lost, options are
// frozen, a closed terminal says why. Everything that happens is told through `tell`.
"use strict";
const { spawn } = require("node:child_process");

class EventEmitter {
  listeners = new Set();
  event = (listener, self) => {
    const entry = (value) => listener.call(self, value);
    this.listeners.add(entry);
    return new Disposable(() => this.listeners.delete(entry));
  };
  fire(value) {
    for (const listener of [...this.listeners]) listener(value);
  }
  dispose() {
    this.listeners.clear();
  }
}

class Disposable {
  constructor(free) {
    this.dispose = free;
  }
}

class ThemeIcon {
  constructor(id) {
    this.id = id;
  }
}

class TerminalProfile {
  constructor(options) {
    this.options = options;
  }
}

const TerminalExitReason = { Unknown: 0, Shutdown: 1, Process: 2, User: 3, Extension: 4 };

class Memento {
  constructor(content = {}) {
    this.content = structuredClone(content);
  }
  get(key, otherwise) {
    return key in this.content ? structuredClone(this.content[key]) : otherwise;
  }
  async update(key, value) {
    if (value === undefined) delete this.content[key];
    else this.content[key] = JSON.parse(JSON.stringify(value)); // as it is stored
  }
}

/** A terminal with a pseudoterminal of the extension's. */
class PtyTerminal {
  exitStatus = undefined;
  shellIntegration = undefined;
  processId = Promise.resolve(undefined);
  constructor(world, number, options) {
    this.world = world;
    this.number = number;
    this.name = options.name;
    this.creationOptions = Object.freeze({ ...options });
    this.pty = options.pty;
    this.isOpen = false;
    this.pty.onDidWrite((text) => world.tell({ event: this.isOpen ? "wrote" : "lost", terminal: number, text }));
    this.pty.onDidClose?.((code) => {
      world.tell({ event: "ended", terminal: number, code: code ?? null });
      this.finish(TerminalExitReason.Process, code);
    });
    this.pty.onDidChangeName?.((name) => {
      this.name = name;
      world.tell({ event: "renamed", terminal: number, name });
    });
  }
  start(size) {
    this.isOpen = true;
    this.pty.open(size);
  }
  show() {
    this.world.front(this);
  }
  finish(reason, code) {
    if (this.exitStatus !== undefined) return;
    this.exitStatus = { reason, code };
    this.isOpen = false;
    this.pty.close();
    this.world.closed(this);
  }
  dispose() {
    this.finish(TerminalExitReason.Extension);
  }
}

/** A terminal of VS Code's own: bash behind pipes; with `integration` it can run one command and tell its output. */
class ShellTerminal {
  held = "";
  exitStatus = undefined;
  shellIntegration = undefined;
  constructor(world, number, options, integration) {
    this.world = world;
    this.number = number;
    this.name = options.name;
    this.creationOptions = Object.freeze({ ...options });
    this.bash = spawn("bash", ["--norc", "--noprofile"], { detached: true, stdio: ["pipe", "pipe", "inherit"] });
    this.processId = Promise.resolve(this.bash.pid);
    this.bash.stdout.on("data", (data) => this.take(data.toString()));
    this.bash.on("exit", () => this.finish(TerminalExitReason.Process));
    if (integration !== "none") setTimeout(() => this.integrate(integration), 20);
  }
  integrate(kind) {
    if (this.exitStatus !== undefined) return;
    this.shellIntegration = { executeCommand: (command) => this.execute(command, kind) };
    this.world.integrated.fire({ terminal: this, shellIntegration: this.shellIntegration });
  }
  sendText(text, withNewline = true) {
    this.world.tell({ event: "typed", terminal: this.number, text });
    this.bash.stdin.write(withNewline ? `${text}\n` : text);
  }
  execute(command, kind) {
    const parts = [];
    let wake = () => {};
    const execution = { commandLine: { value: command } };
    execution.read = async function* () {
      for (let at = 0; ; ) {
        while (at < parts.length) {
          if (parts[at] === null) return;
          yield parts[at++];
        }
        await new Promise((resolve) => (wake = resolve));
      }
    };
    this.told = (part, code) => {
      parts.push(part);
      wake();
      if (part === null && kind !== "endless") {
        this.world.ended.fire({ terminal: this, execution, exitCode: kind === "codeless" ? undefined : code });
      }
    };
    this.world.tell({ event: "executed", terminal: this.number, text: command });
    const quoted = `'${command.replaceAll("'", "'\\''")}'`; // one line, so that a command that reads does not read the marks
    this.bash.stdin.write(`printf '\\033]633;C\\a'; eval ${quoted}; printf '\\033]633;D;%s\\a' $?\n`);
    return execution;
  }
  take(text) {
    this.held += text;
    const end = /\x1b\]633;D;(\d+)\x07/.exec(this.held);
    const mark = end?.index ?? this.held.search(/\x1b(\](6(3(3(;(D(;\d*)?)?)?)?)?)?)?$/); // a mark may come in pieces
    const body = mark < 0 ? this.held : this.held.slice(0, mark);
    this.held = end === null ? this.held.slice(body.length) : "";
    if (body !== "") this.told?.(body);
    if (end !== null) this.told?.(null, Number(end[1]));
  }
  show() {
    this.world.front(this);
  }
  finish(reason, code) {
    if (this.exitStatus !== undefined) return;
    this.exitStatus = { reason, code };
    if (this.bash.exitCode === null && this.bash.signalCode === null) process.kill(-this.bash.pid, "SIGKILL");
    this.world.closed(this);
  }
  /** It lives on, but this program does not wait for it. */
  leave() {
    for (const one of [this.bash, this.bash.stdin, this.bash.stdout]) one.unref();
    process.on("exit", () => process.kill(-this.bash.pid, "SIGKILL"));
  }
  dispose() {
    this.finish(TerminalExitReason.Extension);
  }
}

/** One window of VS Code: `api` is the module "vscode", the rest is what its user does and sees. */
class World {
  terminals = [];
  numbers = 0;
  active = undefined;
  commands = new Map();
  providers = new Map();
  opened = new EventEmitter();
  closings = new EventEmitter();
  integrated = new EventEmitter();
  ended = new EventEmitter();
  configured = new EventEmitter();
  choices = []; // what the user answers the next questions
  constructor({ settings = {}, integration = "none", folder = null, memory = {} }, tell) {
    Object.assign(this, { settings, integration, tell });
    this.workspaceState = new Memento(memory.workspace);
    this.globalState = new Memento(memory.global);
    this.secretContent = { ...memory.secrets };
    const folders = folder === null ? undefined : [{ uri: { scheme: "file", fsPath: folder }, name: "w", index: 0 }];
    this.api = {
      EventEmitter,
      Disposable,
      ThemeIcon,
      TerminalProfile,
      TerminalExitReason,
      StatusBarAlignment: { Left: 1, Right: 2 },
      window: this.window(),
      workspace: {
        workspaceFolders: folders,
        getConfiguration: (section) => ({
          get: (key, otherwise) => this.settings[`${section}.${key}`] ?? otherwise,
        }),
        onDidChangeConfiguration: this.configured.event,
      },
      commands: {
        registerCommand: (name, work) => {
          this.commands.set(name, work);
          return new Disposable(() => this.commands.delete(name));
        },
      },
    };
  }
  window() {
    const world = this;
    const message = (level) => async (text, ...choices) => {
      const chosen = world.choices.shift();
      world.tell({ event: "message", level, text, choices });
      return choices.includes(chosen) ? chosen : undefined;
    };
    return {
      get terminals() {
        return [...world.terminals];
      },
      get activeTerminal() {
        return world.active;
      },
      createTerminal: (options) => world.createTerminal(options),
      createOutputChannel: (name) => world.channel(name),
      createStatusBarItem: () => world.statusBarItem(),
      registerTerminalProfileProvider: (id, provider) => {
        world.providers.set(id, provider);
        return new Disposable(() => world.providers.delete(id));
      },
      onDidOpenTerminal: world.opened.event,
      onDidCloseTerminal: world.closings.event,
      onDidChangeTerminalShellIntegration: world.integrated.event,
      onDidEndTerminalShellExecution: world.ended.event,
      showInformationMessage: message("information"),
      showErrorMessage: message("error"),
      showQuickPick: async (picks) => picks.find(({ label }) => label === world.choices[0]) && picks.find(({ label }) => label === world.choices.shift()),
      showInputBox: async () => world.choices.shift(),
    };
  }
  context(extensionPath) {
    return {
      extensionPath,
      subscriptions: [],
      workspaceState: this.workspaceState,
      globalState: this.globalState,
      secrets: {
        get: async (key) => this.secretContent[key],
        store: async (key, value) => void (this.secretContent[key] = value),
        delete: async (key) => void delete this.secretContent[key],
      },
    };
  }
  createTerminal(options) {
    const number = ++this.numbers;
    const isPty = options.pty !== undefined;
    const terminal = isPty
      ? new PtyTerminal(this, number, options)
      : new ShellTerminal(this, number, options, this.integration);
    this.terminals.push(terminal);
    this.tell({ event: "opened", terminal: number, name: terminal.name, kind: isPty ? "pty" : "shell" });
    this.opened.fire(terminal);
    // As in VS Code: the size is not known before the tab has been drawn once.
    if (isPty) setImmediate(() => terminal.exitStatus === undefined && terminal.start(undefined));
    return terminal;
  }
  front(terminal) {
    this.active = terminal;
    this.tell({ event: "shown", terminal: terminal.number });
  }
  closed(terminal) {
    this.terminals = this.terminals.filter((one) => one !== terminal);
    if (this.active === terminal) this.active = undefined;
    this.tell({ event: "closed", terminal: terminal.number });
    this.closings.fire(terminal);
  }
  channel(name) {
    const at = (level) => (text) => this.tell({ event: "log", level, text: String(text?.stack ?? text) });
    const levels = Object.fromEntries(["trace", "debug", "info", "warn", "error"].map((level) => [level, at(level)]));
    return { name, ...levels, show: () => {}, dispose: () => {} };
  }
  statusBarItem() {
    const item = { text: "", tooltip: "", show: () => {}, dispose: () => {} };
    const { tell } = this;
    return new Proxy(item, {
      set(target, key, value) {
        target[key] = value;
        if (key === "tooltip") tell({ event: "status", text: target.text, tooltip: value });
        return true;
      },
    });
  }
  find(number) {
    const found = this.terminals.find((one) => one.number === number);
    if (found === undefined) throw new Error(`no terminal ${number}`);
    return found;
  }
}

module.exports = { World, TerminalExitReason };
