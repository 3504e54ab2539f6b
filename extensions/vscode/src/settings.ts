/** What the user has set: address, token, whether to connect unasked. The token's own place is VS Code's secret storage. */
import * as vscode from "vscode";
import type { Address } from "./link";

const SECRET = "outlive.token";

export class Settings {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  /** The bridge's address, without a token. */
  get url(): string {
    return this.section.get<string>("url", "ws://localhost:3000").trim();
  }

  get autoConnect(): boolean {
    return this.section.get<boolean>("autoConnect", true);
  }

  /** Where the bridge is: the token travels in the query, since a server of the document's reads no headers. */
  async bridge(): Promise<Address> {
    const url = parsed(this.url);
    const token = await this.token();
    if (token !== "") url.searchParams.set("token", token);
    // A server of ours then sends its own terminals, too; any other does not look at it (decision 100).
    return { url: url.href, headers: { "Outlive-Extension": "1" } };
  }

  /** Where a terminal's bytes are: always on the bridge's own server, whatever `path` says. */
  async terminal(path: string, query: Readonly<Record<string, string>>): Promise<Address> {
    const url = parsed(this.url);
    url.pathname = path;
    url.search = new URLSearchParams(query).toString();
    const token = await this.token();
    return { url: url.href, headers: token === "" ? {} : { Authorization: `Bearer ${token}` } };
  }

  /** Keep a token where only this extension can read it; an empty one is forgotten. */
  async keepToken(token: string): Promise<void> {
    if (token === "") await this.secrets.delete(SECRET);
    else await this.secrets.store(SECRET, token);
  }

  private async token(): Promise<string> {
    return (await this.secrets.get(SECRET)) ?? this.section.get<string>("token", "").trim();
  }

  private get section(): vscode.WorkspaceConfiguration {
    return vscode.workspace.getConfiguration("outlive");
  }
}

function parsed(text: string): URL {
  const url = new URL(text);
  if (url.protocol !== "ws:" && url.protocol !== "wss:") throw new Error("outlive.url must begin with ws:// or wss://");
  url.hash = "";
  return url;
}
