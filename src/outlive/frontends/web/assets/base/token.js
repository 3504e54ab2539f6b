// @ts-check
// Where this window keeps its token: in its own storage, which neither another window nor another origin reads. No cookie: a
// cookie would be sent to every port of this machine.

const PLACE = "outlive.token";

/** @returns {string | null} The token that this window shows, null while it has none. */
export function token() {
  return sessionStorage.getItem(PLACE);
}

/** @param {string} secret What is shown from now on. */
export function keepToken(secret) {
  sessionStorage.setItem(PLACE, secret);
}

/** Forget it: it was revoked, or has expired. */
export function dropToken() {
  sessionStorage.removeItem(PLACE);
}
