export * from "@xterm/addon-unicode-graphemes";
