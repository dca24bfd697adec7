// What a person writes, and what they paste into it. A text area becomes slow
// with long text (a second for each key at 5 MB), so a long paste is kept
// beside what is typed, as a piece of its own, and sent after it.

export interface Paste {
  key: number;
  text: string;
  bytes: number;
}

export interface Draft {
  text: string;
  pastes: Paste[];
}

export const emptyDraft: Draft = { text: "", pastes: [] };

const longPaste = 32_000; // characters from which a paste is a piece of its own
const longText = 64_000; // characters in the text area above which one of a thousand is

const encoder = new TextEncoder();

/** The size of a text as the server counts it. */
export const byteLength = (s: string): number => encoder.encode(s).length;

let newest = 0;
const piece = (text: string): Paste => ({ key: ++newest, text, bytes: byteLength(text) });

/** The draft of a text that was kept, and the pieces with it. */
export const draftOf = (text: string, pastes: string[]): Draft => ({ text, pastes: pastes.map(piece) });

/** The draft after a paste over what is selected; null if the text area may take it by itself. */
export function pasted(d: Draft, text: string, from: number, to: number): Draft | null {
  if (text.length < longPaste && !(d.text.length + text.length > longText && text.length >= 1000)) return null;
  return { text: d.text.slice(0, from) + d.text.slice(to), pastes: [...d.pastes, piece(text)] };
}

/** The draft after the text area came to have a text, typed, dropped or filled in. */
export function typed(d: Draft, text: string): Draft {
  if (text.length <= longText) return { ...d, text };
  let from = 0;
  while (from < d.text.length && d.text[from] === text[from]) from++;
  let end = 0;
  while (end < d.text.length - from && d.text[d.text.length - 1 - end] === text[text.length - 1 - end]) end++;
  const added = text.slice(from, text.length - end);
  const rest = d.text.slice(0, from) + d.text.slice(d.text.length - end);
  return pasted({ ...d, text: rest }, added, from, from) ?? { ...d, text };
}

/** All of it, as it is sent. */
export const wholeText = (d: Draft): string => [d.text, ...d.pastes.map((p) => p.text)].filter(Boolean).join("\n\n");

/** The size of all of it, in bytes. */
export function draftBytes(d: Draft): number {
  const parts = [byteLength(d.text), ...d.pastes.map((p) => p.bytes)].filter(Boolean);
  return parts.reduce((n, b) => n + b, 0) + 2 * Math.max(0, parts.length - 1);
}

export const isBlank = (d: Draft): boolean => !d.text.trim() && d.pastes.every((p) => !p.text.trim());
