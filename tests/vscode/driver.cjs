// VS Code with the bundled extension in it, driven by a test: one JSON object a line on stdin says what the user does,
// lines on stdout say what came of it and what happened. Arguments: the bundle.
"use strict";
const Module = require("node:module");
const { createInterface } = require("node:readline");
const { World, TerminalExitReason } = require("./vscode_stub.cjs");

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
let world;
let extension;
let context;

const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => (name === "vscode" ? name : resolve(name, ...rest));

const steps = {
  async activate(words) {
    world = new World(words, say);
    require.cache.vscode = { id: "vscode", filename: "vscode", loaded: true, exports: world.api };
    extension = require(process.argv[2]);
    context = world.context(process.argv[2]);
    await extension.activate(context);
  },
  async command({ name, choices = [] }) {
    world.choices = choices;
    await world.commands.get(name)();
  },
  async profile() {
    const profile = await world.providers.get("outlive.terminal").provideTerminalProfile();
    return world.createTerminal(profile.options).number;
  },
  async type({ terminal, text }) {
    world.find(terminal).pty.handleInput(text);
  },
  async size({ terminal, columns, rows }) {
    world.find(terminal).pty.setDimensions({ columns, rows });
  },
  async bring({ terminal }) {
    world.find(terminal).show();
  },
  async close_tab({ terminal, reason, choices = [] }) {
    world.choices = choices;
    world.find(terminal).finish(TerminalExitReason[reason]);
  },
  async configure({ settings }) {
    Object.assign(world.settings, settings);
    world.configured.fire({ affectsConfiguration: (name) => name in settings });
  },
  async pid({ terminal }) {
    return await world.find(terminal).processId;
  },
  async memory() {
    return { workspace: world.workspaceState.content, global: world.globalState.content, secrets: world.secretContent };
  },
  /** The window's reload: VS Code ends pseudoterminals, brings its own terminals back, and starts the extension anew. */
  async reload() {
    for (const one of world.terminals.filter(({ pty }) => pty)) one.finish(TerminalExitReason.Shutdown);
    await steps.release();
    delete require.cache[require.resolve(process.argv[2])];
    extension = require(process.argv[2]);
    context = world.context(process.argv[2]);
    await extension.activate(context);
  },
  async release() {
    await extension.deactivate();
    for (const one of context.subscriptions.splice(0)) one.dispose();
  },
  /** What VS Code does with an extension that it lets go of; nothing of it may keep the program alive. */
  async deactivate() {
    await steps.release();
    for (const one of world.terminals.filter(({ pty }) => pty === undefined)) one.leave();
  },
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const words = JSON.parse(line);
  steps[words.do](words).then(
    (result) => say({ step: words.step, result: result ?? null }),
    (error) => say({ step: words.step, error: String(error?.stack ?? error) }),
  );
});
