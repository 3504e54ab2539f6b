export * from "@xterm/addon-webgl";
