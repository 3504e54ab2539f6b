// A client that a test drives: one JSON object a line on stdin says what to do, lines on stdout say what came of it.
//
// `open` connects and returns a client; `call` is its callTool with its own order of arguments. Steps run side by
// side: a call goes on while the next line is read.
import { createInterface } from "node:readline";

export async function drive({ open, call }) {
  const aborts = new Map();
  let client;
  const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
  const steps = {
    async connect(words) {
      client = await open(words);
      client.onerror = (error) => process.stderr.write(`${error}\n`); // a lost stream, for instance: the client goes on
      return client.getServerVersion();
    },
    async list() {
      return (await client.listTools()).tools.map((tool) => tool.name);
    },
    async call({ step, name, arguments: given, hears }) {
      const abort = new AbortController();
      aborts.set(step, abort);
      const options = { signal: abort.signal, timeout: 60_000, resetTimeoutOnProgress: true };
      if (hears) options.onprogress = ({ message }) => say({ step, progress: message });
      return await call(client, { name, arguments: given }, options);
    },
    async abort({ call: step }) {
      aborts.get(step).abort("enough");
      return null;
    },
    async close() {
      await client.close();
      return null;
    },
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const words = JSON.parse(line);
    steps[words.do](words).then(
      (result) => say({ step: words.step, result }),
      (error) => say({ step: words.step, error: String(error) }),
    );
  }
  process.exit(0);
}
