// What the page says went wrong, and for how long. Run by test_pure.py in plain Node.
import assert from "node:assert/strict";
import test from "node:test";

import { attempt, complain, repeated, trouble } from "./page/base/controls.js";

const fail = (text, hint) => () => Promise.reject(Object.assign(new Error(text), { hint }));
const succeed = () => Promise.resolve();

test("what went wrong for a person stays until the next deed, whatever the page does by itself", async () => {
  const look = repeated();
  await attempt(fail("It has ended.", "Start it again."));
  await look(succeed);
  assert.equal(trouble.value, "It has ended. Start it again.");
  await look(fail("The server is away."));
  await look(succeed);
  assert.equal(trouble.value, "It has ended. Start it again.");
  await attempt(succeed);
  assert.equal(trouble.value, "");
});

test("what went wrong for the page by itself is over once it goes well", async () => {
  const [look, other] = [repeated(), repeated()];
  await look(fail("The server is away."));
  assert.equal(trouble.value, "The server is away.");
  await other(succeed);
  assert.equal(trouble.value, "The server is away.");
  await look(fail("The connection was lost."));
  assert.equal(trouble.value, "The connection was lost.");
  await look(succeed);
  assert.equal(trouble.value, "");
});

test("the same words of a person's deed and of the page are not taken for each other", async () => {
  const look = repeated();
  await look(fail("The server is away."));
  await attempt(fail("The server is away."));
  await look(succeed);
  assert.equal(trouble.value, "The server is away.");
  complain("");
  await look(fail("The server is away."));
  assert.equal(trouble.value, "The server is away.", "what was closed is said again while it is so");
  await look(succeed);
  assert.equal(trouble.value, "");
});
