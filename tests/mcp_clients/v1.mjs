// `@modelcontextprotocol/sdk`, the TypeScript SDK of most hosts: handshake revisions. Its folder is the argument.
import { createRequire } from "node:module";
import { drive } from "./driver.mjs";

const load = createRequire(`${process.argv[2]}/`);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");

await drive({
  async open({ url, stdio }) {
    const client = new Client({ name: "v1", version: "1" });
    await client.connect(url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(stdio));
    return client;
  },
  call: (client, params, options) => client.callTool(params, undefined, options),
});
