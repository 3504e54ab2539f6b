/**
 * outlive.terminal.v1: raw bytes in binary frames both ways, control messages as JSON in text frames. Pure.
 *
 * The server's side of it is documented in docs/ws-terminal.md.
 */
import { isObject } from "./messages";

export const SUBPROTOCOL = "outlive.terminal.v1";

/** What a control message of the server's means here. */
export type Told =
  | { readonly type: "position"; readonly cursor: string } // what comes next begins at this cursor
  | { readonly type: "gap"; readonly cursor: string } // the same, and something before it is lost
  | { readonly type: "ended"; readonly exitCode: number | undefined }
  | { readonly type: "other"; readonly text: string };

/** Read a text frame; never throws. */
export function read(text: string): Told {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { type: "other", text: "what is not JSON" };
  }
  if (!isObject(value)) return { type: "other", text: "what is no object" };
  const { type, cursor, exit_code, signal, message } = value;
  switch (type) {
    case "hello":
    case "cursor":
      return typeof cursor === "string" ? { type: "position", cursor } : { type: "other", text: "no cursor" };
    case "gap":
      return typeof cursor === "string" ? { type: "gap", cursor } : { type: "other", text: "no cursor" };
    case "exited":
      // A shell reports its own child's death by a signal in this way, and so does VS Code.
      if (typeof exit_code === "number") return { type: "ended", exitCode: exit_code };
      return { type: "ended", exitCode: typeof signal === "number" ? 128 + signal : undefined };
    case "closed":
      return { type: "ended", exitCode: undefined };
    default:
      return { type: "other", text: `${String(type).slice(0, 40)} ${typeof message === "string" ? message.slice(0, 200) : ""}` };
  }
}

/** Say which size the terminal has now, in character cells. */
export function resize(size: { readonly columns: number; readonly rows: number }): string {
  return JSON.stringify({ type: "resize", rows: size.rows, cols: size.columns });
}

/** Ask for a signal to the shell and everything below it. */
export function signal(name: "SIGHUP" | "SIGKILL"): string {
  return JSON.stringify({ type: "signal", name, to: "tree" });
}

/** How far the output has been shown: a cursor of the server's and the bytes that came after it was told. */
export class Position {
  private stdout: number | undefined;
  private stderr = 0;

  /** What to add to the terminal's address; {} while nothing is known: the server then begins with recent history. */
  get query(): Readonly<Record<string, string>> {
    return this.stdout === undefined ? {} : { cursor: `${this.stdout}.${this.stderr}` };
  }

  /** The server says where we are; a cursor of another form than "<bytes>.<bytes>" is not believed. */
  set(cursor: string): void {
    const found = /^(\d{1,15})(?:\.(\d{1,15}))?$/.exec(cursor);
    if (found === null) return;
    this.stdout = Number(found[1]);
    this.stderr = Number(found[2] ?? 0);
  }

  /** So many bytes have come; a terminal's are all on its first stream. */
  advance(bytes: number): void {
    if (this.stdout !== undefined) this.stdout += bytes;
  }
}
