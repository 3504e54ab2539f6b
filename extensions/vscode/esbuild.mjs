// Bundles the extension, the ws package included, into the one file that VS Code loads: dist/extension.js.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const licence = readFileSync("node_modules/ws/LICENSE", "utf8").trim();

await build({
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  format: "cjs",
  platform: "node",
  target: "node20", // what VS Code 1.93 runs on
  external: ["vscode", "bufferutil", "utf-8-validate"], // ws does without its native halves
  banner: { js: `/*! Contains ws.\n${licence}\n*/` },
  logLevel: "warning",
});
