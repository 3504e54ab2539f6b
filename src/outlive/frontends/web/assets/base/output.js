// @ts-check
// A process's output over REST, by position (docs/rest.md): the bytes as they were written.
import { token } from "./token.js";

/**
 * Return one page of output, its data in base64.
 * @param {string} id
 * @param {Record<string, string | number>} query
 * @returns {Promise<any>}
 */
export async function output(id, query) {
  const words = new URLSearchParams({ encoding: "base64" });
  for (const [name, value] of Object.entries(query)) words.set(name, String(value));
  const answer = await fetch(`/v1/processes/${encodeURIComponent(id)}/output?${words}`, { headers: { Authorization: `Bearer ${token()}` } });
  const page = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(page.detail), { hint: page.hint });
  return page;
}
