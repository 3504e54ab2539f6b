// @ts-check
// What waits for something to be typed: its last screen, and a field. What is typed goes to the process alone.
import { isCalm } from "../base/calm.js";
import { attempt } from "../base/controls.js";
import { answer, changedAt, questions } from "./questions.js";
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
  // What was typed belongs to one question: what is asked next begins with an empty field.
  const [typed, setTyped] = useState({ to: question, text: "" });
  const [isSending, setSending] = useState(false);
  const text = typed.to === question ? typed.text : "";
  const { process, screen, at } = question;
  const giveBack = (/** @type {unknown} */ error) => {
    setTyped((/** @type {{to: Question, text: string}} */ now) => (now.text ? now : { to: question, text }));
    throw error;
  };
  const isSecret = process.waiting === "password";
  const name = process.name ?? process.short_id ?? process.process_id.slice(-6);
  return html`<article class="card" aria-label=${`Question of ${name}`}>
    <p><a href=${`#/log/${process.process_id}`}><b>${name}</b></a> <code>${process.command}</code></p>
    <pre>${screen}</pre>
    <form class="answers" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      setSending(true);
      setTyped({ to: question, text: "" });
      void attempt(() => answer(question, text).catch(giveBack)).finally(() => setSending(false));
    }}>
      <input type=${isSecret ? "password" : "text"} autocomplete="off" aria-label=${isSecret ? "Answer, not shown" : "Answer"} value=${text} readonly=${!isCalm(at)}
        onInput=${(/** @type {Event} */ event) => setTyped({ to: question, text: /** @type {HTMLInputElement} */ (event.target).value })} />
      <button disabled=${isSending || !isCalm(changedAt.value)}>Send</button>
    </form>
  </article>`;
}
