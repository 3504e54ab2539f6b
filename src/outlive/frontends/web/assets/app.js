// @ts-check
// The page: who may see it, its frame, and the view that the address names.
import { followAddress, place } from "./base/address.js";
import { approvals, decides, followApprovals } from "./approvals/approvals.js";
import { ApprovalsView } from "./approvals/approvals_view.js";
import { CompareView } from "./compare/compare_view.js";
import { complain, trouble } from "./base/controls.js";
import { ListView } from "./list/list_view.js";
import { LogView } from "./log/log_view.js";
import { MachineView } from "./machine/machine_view.js";
import { PlaybackView } from "./playback/playback_view.js";
import { followProcesses } from "./base/processes.js";
import { followQuestions, questions } from "./questions/questions.js";
import { QuestionsView } from "./questions/questions_view.js";
import { dial, link, scope } from "./base/rpc.js";
import { SearchView } from "./search/search_view.js";
import { TerminalView } from "./terminals/terminal_view.js";
import { followTimeline } from "./timeline/timeline.js";
import { TimelineView } from "./timeline/timeline_view.js";
import { dropToken, keepToken, token } from "./base/token.js";
import { effect, html, render, signal } from "./base/ui.js";

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const hasToken = signal(token() !== null);

/** @type {Map<string, () => unknown>} By their name in the address. */
const VIEWS = new Map(Object.entries({
  list: ListView,
  log: LogView,
  search: SearchView,
  approvals: ApprovalsView,
  questions: QuestionsView,
  terminal: TerminalView,
  playback: PlaybackView,
  compare: CompareView,
  timeline: TimelineView,
  machine: MachineView,
}));

function App() {
  if (!hasToken.value) return html`<${TokenForm} />`;
  return html`<header>
      <a class="home" href="#/list">outlive</a>
      <nav aria-label="Views">
        <${Tab} view="list" text="Processes" count=${0} />
        <${Tab} view="search" text="Search" count=${0} />
        ${decides() && html`<${Tab} view="approvals" text="Approvals" count=${approvals.value.length} />`}
        ${["run", "admin"].includes(scope.value) && html`<${Tab} view="questions" text="Questions" count=${questions.value.size} />`}
        <${Tab} view="timeline" text="Timeline" count=${0} />
        <${Tab} view="machine" text="Machine" count=${0} />
      </nav>
      <span class="link" role="status">${link.value === "open" ? scope.value === "read" ? "only looks" : "" : "The server is away; the page tries again."}</span>
    </header>
    ${trouble.value && html`<p class="trouble" role="alert">${trouble.value} <button class="quiet" onClick=${() => complain("")}>Close</button></p>`}
    <main><${VIEWS.get(place.value.view) ?? ListView} /></main>`;
}

/** @param {{view: string, text: string, count: number}} props How many wait there. */
function Tab({ view, text, count }) {
  return html`<a href=${`#/${view}`} aria-current=${place.value.view === view ? "page" : undefined}>${text}${count > 0 && html` <span class="count">${count}</span>`}</a>`;
}

function TokenForm() {
  const take = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("token"));
    keepToken(field.value.trim());
    link.value = "away";
    hasToken.value = true;
    dial();
  };
  return html`<main class="narrow"><form onSubmit=${take}>
    <h1>outlive</h1>
    <p>${
      link.value === "refused"
        ? "This token does not count: it is unknown, was revoked, or has expired."
        : html`On this machine <code>outlive ui</code> opens the page. From elsewhere, type a token.`
    }</p>
    <label>Token <input name="token" type="password" autocomplete="off" required autofocus /></label>
    <button>Open</button>
  </form></main>`;
}

effect(() => {
  if (link.value !== "refused") return;
  dropToken();
  hasToken.value = false;
});
addEventListener("keydown", (event) => {
  const isTyped = event.target instanceof Element && event.target.matches("input, textarea, select");
  if (event.key !== "/" || isTyped) return;
  event.preventDefault();
  document.getElementById("filter")?.focus();
});
followAddress();
followProcesses();
followApprovals();
followQuestions();
followTimeline();
effect(() => {
  const count = approvals.value.length + questions.value.size;
  document.title = count ? `(${count}) outlive` : "outlive";
});
dial();
effect(() => render(html`<${App} />`, root));
