// @ts-check
// What waits for something to be typed: its last screen, and a field. What is typed goes to the process alone.
import { attempt } from "../base/controls.js";
import { answer, questions } from "./questions.js";
import { scope } from "../base/rpc.js";
import { html, useState } from "../base/ui.js";

/** @typedef {import("./questions.js").Question} Question */

export function QuestionsView() {
  if (scope.value === "read") return html`<p class="empty">A page of the scope read types nothing.</p>`;
  const waiting = [...questions.value.values()];
  return html`<section class="cards" aria-label="Questions">
    <p class="empty" role="status">${waiting.length ? `${waiting.length} waiting for input` : "Nothing waits for input."}</p>
    ${waiting.map((one) => html`<${Card} key=${one.process.process_id} question=${one} />`)}
  </section>`;
}

/** @param {{question: Question}} props */
function Card({ question }) {
  const [text, setText] = useState("");
  const { process, screen } = question;
  const isSecret = process.waiting === "password";
  const name = process.name ?? process.short_id ?? process.process_id.slice(-6);
  return html`<article class="card" aria-label=${`Question of ${name}`}>
    <p><a href=${`#/log/${process.process_id}`}><b>${name}</b></a> <code>${process.command}</code></p>
    <pre>${screen}</pre>
    <form class="answers" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      setText("");
      void attempt(() => answer(question, text));
    }}>
      <input type=${isSecret ? "password" : "text"} autocomplete="off" aria-label=${isSecret ? "Answer, not shown" : "Answer"} value=${text}
        onInput=${(/** @type {Event} */ event) => setText(/** @type {HTMLInputElement} */ (event.target).value)} />
      <button>Send</button>
    </form>
  </article>`;
}
