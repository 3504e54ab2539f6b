// @ts-check
// The page: asks for a token where this window has none, and lists what runs.
import { dropToken, keepToken, token } from "./token.js";

const place = /** @type {HTMLElement} */ (document.getElementById("app"));

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {string} text Shown as it is: never taken for HTML.
 */
function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

/** @param {string} reason Why it is asked for once more. */
function askForToken(reason = "") {
  const form = element("form");
  const label = element("label", "Token ");
  const field = element("input");
  field.type = "password";
  field.autocomplete = "off";
  field.required = true;
  label.append(field);
  form.append(
    element("h1", "outlive"),
    element("p", reason || "On this machine `outlive ui` opens the page. From elsewhere, type a token."),
    label,
    element("button", "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    void show();
  });
  place.replaceChildren(form);
  field.focus();
}

async function show() {
  const secret = token();
  if (secret === null) return askForToken();
  const answer = await fetch("/v1/processes?state=active", { headers: { Authorization: `Bearer ${secret}` } });
  if (answer.status === 401) {
    dropToken();
    return askForToken("This token does not count: it is unknown, was revoked, or has expired.");
  }
  const { processes } = await answer.json();
  const list = element("ul");
  for (const one of processes) list.append(element("li", `${one.state}  ${one.name ?? one.command}`));
  place.replaceChildren(element("h1", "What runs"), processes.length ? list : element("p", "Nothing runs."));
}

void show();
