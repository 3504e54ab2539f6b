/**
 * The words of the terminal bridge: one JSON object a message, with `type`, `id` and mostly `data`.
 *
 * Pure: text in, a message or what is wrong with it out. What a message makes happen is bridge.ts's matter.
 */

/** One message, either way. `data` is {} where the message has none. */
export interface Message {
  readonly type: string;
  readonly id: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A message that could be read, or a sentence about why not. */
export type Reading = { readonly message: Message } | { readonly problem: string };

/** A terminal that the server keeps and that can be shown here: `path` is where its bytes are, on the same server. */
export interface Shown {
  readonly terminalId: string;
  readonly terminalName: string;
  readonly path: string;
}

/** Something that is wrong with a request and that its sender is told, as it stands. */
export class RequestError extends Error {}

/** Read one text frame; never throws. */
export function read(text: string): Reading {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: "not JSON" };
  }
  if (!isObject(value)) return { problem: "not a JSON object" };
  const { type, id, data } = value;
  if (typeof type !== "string" || type === "") return { problem: "without a type" };
  if (typeof id !== "string" || id === "") return { problem: `${type.slice(0, 40)} without an id` };
  return { message: { type, id, data: isObject(data) ? data : {} } };
}

/** Write one message; `data` is left out where there is none, as in ping and pong. */
export function write(type: string, id: string, data?: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(data === undefined ? { type, id } : { type, id, data });
}

/** Return a text field that must be there. */
export function required(message: Message, field: string): string {
  const value = optional(message, field);
  if (value === undefined) throw new RequestError(`${message.type} needs data.${field}`);
  return value;
}

/** Return a text field, or undefined where it is missing, null or empty. */
export function optional(message: Message, field: string): string | undefined {
  const value = message.data[field];
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string") throw new RequestError(`data.${field} must be a string`);
  return value;
}

/** Read one terminal to be shown; undefined when it is none. */
export function shown(value: unknown): Shown | undefined {
  if (!isObject(value)) return undefined;
  const { terminalId, terminalName, path } = value;
  if (typeof terminalId !== "string" || terminalId === "") return undefined;
  if (typeof path !== "string" || !path.startsWith("/")) return undefined;
  return { terminalId, path, terminalName: typeof terminalName === "string" ? terminalName : terminalId };
}

/** Read the list of terminals that a server of ours sends when we have connected. */
export function shownList(message: Message): readonly Shown[] {
  const list: unknown = message.data["terminals"];
  if (!Array.isArray(list)) return [];
  return list.map(shown).filter((one) => one !== undefined);
}

/** Whether a value is a JSON object: no array, no null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
