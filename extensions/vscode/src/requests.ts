/** What we ask of the server: each request has an id of ours, one answer, and a deadline. */
import { randomUUID } from "node:crypto";
import { type Message, RequestError, write } from "./messages";

const PATIENCE_MS = 30_000;

interface Waiting {
  settle(outcome: Message | Error): void;
}

export class Requests {
  private readonly waiting = new Map<string, Waiting>();

  constructor(private readonly send: (text: string) => boolean) {}

  /**
   * Ask and return the answer. Throws what the server says against it, and that the connection is gone: whether the
   * server did it is then unknown, and nothing is asked twice.
   */
  async ask(type: string, data: Readonly<Record<string, unknown>>): Promise<Message> {
    const id = `vscode-${randomUUID()}`;
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => settle(new Error(`The server has not answered ${type} in time.`)), PATIENCE_MS);
      const settle = (outcome: Message | Error): void => {
        clearTimeout(timer);
        this.waiting.delete(id);
        if (outcome instanceof Error) reject(outcome);
        else if (outcome.type === "error") reject(new RequestError(String(outcome.data["error"] ?? "error")));
        else resolve(outcome);
      };
      this.waiting.set(id, { settle });
      if (!this.send(write(type, id, data))) settle(new Error("Not connected to an outlive server."));
    });
  }

  /** Take an answer; false when nobody has asked for it. */
  settle(answer: Message): boolean {
    const waiting = this.waiting.get(answer.id);
    waiting?.settle(answer);
    return waiting !== undefined;
  }

  /** The connection is gone: nobody will be answered any more. */
  abandon(): void {
    const text = "The connection was lost; whether the server has done it is unknown.";
    for (const waiting of [...this.waiting.values()]) waiting.settle(new Error(text));
  }
}
