// The smallest MCP server that one writes with the TypeScript SDK: Streamable HTTP, one tool that runs `sh -c`.
//
// It is a yardstick of the benchmarks and must stay plain: no records, no cancel, no limits. The SDK's folder is the
// argument; prints its port when it listens.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const load = createRequire(`${process.argv[2]}/`);
const { McpServer } = load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { z } = load("zod");

function run(command) {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    child.stdout.on("data", (piece) => (text += piece));
    child.stderr.resume();
    child.on("error", reject);
    child.on("close", () => resolve(text));
  });
}

const transports = new Map();

async function begin() {
  const server = new McpServer({ name: "mcp_typescript", version: "1" });
  server.registerTool("command_execute", { inputSchema: { command: z.string() } }, async ({ command }) => ({
    content: [{ type: "text", text: await run(command) }],
  }));
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (name) => transports.set(name, transport),
  });
  await server.connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  const name = request.headers["mcp-session-id"];
  const transport = name === undefined ? await begin() : transports.get(name);
  await transport.handleRequest(request, response);
});
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
