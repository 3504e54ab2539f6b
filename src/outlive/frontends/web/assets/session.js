// @ts-check
// The one script of the document that answers a code: it takes the token out of the document, and goes on to the page.
import { keepToken } from "./base/token.js";

const meta = document.querySelector('meta[name="outlive-token"]');
if (meta instanceof HTMLMetaElement) {
  keepToken(meta.content);
  meta.remove();
}
location.replace("/");
