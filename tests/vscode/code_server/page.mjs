// A person before VS Code's window: one JSON object a line on stdin says what they do, lines on stdout what they see.
//
// Arguments: the folder that the packages lie in, the browser's program, a folder for its profile.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packages, browserProgram, profile] = process.argv.slice(2);
const { default: puppeteer } = await import(createRequire(`${packages}/`).resolve("puppeteer-core"));

const browser = await puppeteer.launch({
  executablePath: browserProgram,
  headless: true,
  userDataDir: profile,
  protocolTimeout: 60_000,
  args: [
    "--no-sandbox", // it runs as root in continuous integration, and shows one page of ours
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,800",
  ],
  defaultViewport: { width: 1200, height: 800 },
});
const page = await browser.newPage();
const PATIENCE = { timeout: 30_000 };

/** What the terminal in front shows, line by line; the DOM renderer is set, so that it is text. */
const shownText = () =>
  [...document.querySelectorAll(".terminal-wrapper.active .xterm-rows > div")].map((row) =>
    row.textContent.replaceAll("\u00a0", " ").trimEnd(),
  );

const steps = {
  /** Return the browser's pid: it leads a process group of its own. */
  async browser() {
    return browser.process().pid;
  },
  async open({ url }) {
    await page.goto(url, PATIENCE);
    await page.waitForSelector(".statusbar", PATIENCE);
  },
  async reload() {
    await page.reload(PATIENCE);
    await page.waitForSelector(".statusbar", PATIENCE);
  },
  /** Open the panel if it is closed: a window that is loaded anew may have forgotten that it was open. */
  async panel() {
    if (await page.$(".monaco-workbench.nopanel")) {
      await page.keyboard.down("Control");
      await page.keyboard.press("Backquote");
      await page.keyboard.up("Control");
    }
  },
  async command({ name }) {
    await page.keyboard.press("F1");
    await steps.pick({ name });
  },
  /** Choose the line of this name from the list that is open. */
  async pick({ name }) {
    await page.waitForSelector(".quick-input-widget input", { visible: true, ...PATIENCE });
    await page.keyboard.type(name);
    const line = await page.waitForFunction(
      (wanted) =>
        [...document.querySelectorAll(".quick-input-list .monaco-list-row")].find(
          (row) => row.querySelector(".label-name")?.textContent === wanted,
        ),
      PATIENCE,
      name,
    );
    await line.click();
  },
  /** Bring a terminal to the front by its tab; there are several, so that tabs are shown. */
  async tab({ name }) {
    const begun = Date.now();
    for (;;) {
      const tab = await page.waitForFunction(
        (wanted) =>
          [...document.querySelectorAll(".tabs-list .monaco-list-row")].find((row) => row.textContent.includes(wanted)),
        PATIENCE,
        name,
      );
      await tab.click().catch(() => undefined); // gone meanwhile: while terminals come back the list is drawn anew
      try {
        await steps.front({ name, timeout: 1000 });
        return;
      } catch (error) {
        if (Date.now() - begun > PATIENCE.timeout) {
          throw error;
        }
      }
    }
  },
  /** Wait until a terminal is in front. */
  async front({ name, timeout = PATIENCE.timeout }) {
    await page.waitForFunction(
      (wanted) => document.querySelector(".tabs-list .monaco-list-row.selected")?.textContent.includes(wanted),
      { ...PATIENCE, timeout },
      name,
    );
  },
  /** Put the cursor into the terminal in front. */
  async focus() {
    await page.waitForSelector(".terminal-wrapper.active .xterm-helper-textarea", PATIENCE);
    await page.focus(".terminal-wrapper.active .xterm-helper-textarea");
  },
  async type({ text }) {
    await page.keyboard.type(text);
  },
  async press({ key }) {
    await page.keyboard.press(key);
  },
  async viewport({ width, height }) {
    await page.setViewport({ width, height });
  },
  /** Wait until the terminal in front shows a line that fits. */
  async until({ pattern }) {
    await page.waitForFunction(
      (shown, source) => new Function(`return (${shown})()`)().some((line) => new RegExp(source).test(line)),
      PATIENCE,
      shownText.toString(),
      pattern,
    );
    return await page.evaluate(shownText);
  },
};

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const words = JSON.parse(line);
  try {
    say({ result: (await steps[words.do](words)) ?? null });
  } catch (error) {
    await page.screenshot({ path: `${profile}.png` }).catch(() => undefined); // what was seen instead
    say({ error: `${error?.stack ?? error}\nseen: ${profile}.png` });
  }
}
await browser.close();
