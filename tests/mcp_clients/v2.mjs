// `@modelcontextprotocol/client`, the TypeScript SDK's second generation: both eras. Its folder is the argument.
import { createRequire } from "node:module";
import { drive } from "./driver.mjs";

const load = createRequire(`${process.argv[2]}/`);
const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");

await drive({
  async open({ url, stdio, revision }) {
    const versionNegotiation = { mode: revision ? { pin: revision } : "legacy" };
    const client = new Client({ name: "v2", version: "1" }, { versionNegotiation });
    await client.connect(url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(stdio));
    return client;
  },
  call: (client, params, options) => client.callTool(params, options),
});
