/**
 * The output of one command by VS Code's shell integration: best effort, bounded in time and size.
 *
 * Shell integration loses output and never ends some commands; whoever needs every byte uses a terminal of the server's.
 */
import { stripVTControlCharacters } from "node:util";
import * as vscode from "vscode";

/** ended: this is its output; unfinished: it may still run, or nobody knows; closed: its terminal has gone. */
export type Captured =
  | { readonly state: "ended"; readonly output: string }
  | { readonly state: "unfinished" }
  | { readonly state: "closed" };

/** UTF-16 units that are kept: as JSON in UTF-8 below 1 MiB, beyond which some servers end the connection. */
const LIMIT = 256 * 1024;
/** The last of the output may come behind the event of its end. */
const TAIL_MS = 500;

/** Run a command and wait at most `patience` ms for its end, and no longer than until the signal. */
export async function capture(
  terminal: vscode.Terminal,
  integration: vscode.TerminalShellIntegration,
  command: string,
  patience: number,
  signal: AbortSignal,
): Promise<Captured> {
  const freed: vscode.Disposable[] = [];
  let timer: NodeJS.Timeout | undefined;
  try {
    let execution: vscode.TerminalShellExecution | undefined;
    const outcome = new Promise<"closed" | "unfinished" | { code: number | undefined }>((resolve) => {
      timer = setTimeout(() => resolve("unfinished"), patience);
      const stop = (): void => resolve("unfinished");
      signal.addEventListener("abort", stop);
      freed.push(
        { dispose: () => signal.removeEventListener("abort", stop) },
        vscode.window.onDidEndTerminalShellExecution((event) => {
          if (event.execution === execution) resolve({ code: event.exitCode });
        }),
        vscode.window.onDidCloseTerminal((one) => one === terminal && resolve("closed")),
      );
    });
    execution = integration.executeCommand(command);
    const reading = gather(execution.read());
    const end = await outcome;
    if (typeof end === "string") return { state: end };
    await Promise.race([reading.done, new Promise((resolve) => setTimeout(resolve, TAIL_MS).unref())]);
    // Without an exit code the integration has lost its way, and with it the output.
    if (end.code === undefined) return { state: "unfinished" };
    return { state: "ended", output: plain(reading.text()) };
  } finally {
    clearTimeout(timer);
    for (const one of freed) one.dispose();
  }
}

function gather(parts: AsyncIterable<string>): { done: Promise<void>; text: () => string } {
  let text = "";
  let isCut = false;
  const done = (async () => {
    for await (const part of parts) {
      if (isCut) continue;
      text += part;
      isCut = text.length > LIMIT;
    }
  })().catch(() => undefined); // the stream of a terminal that has gone
  return { done, text: () => (isCut ? `${text.slice(0, LIMIT)}\n[the rest is left out]` : text) };
}

/** Operating system commands, the marks of shell integration among them (ECMA-48, 8.3.89). */
const OSC = /\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g;

function plain(raw: string): string {
  return stripVTControlCharacters(raw.replace(OSC, "")).replaceAll("\r\n", "\n");
}
