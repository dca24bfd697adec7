// xterm.js on a socket of the machine. Loaded when a terminal is opened.
import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { message } from "../api/http";
import type { Seat } from "../api/machine";

/** What the server says in between, as text. */
interface Said {
  type: "ready" | "gap" | "exit";
  terminal?: string;
  bytes?: number;
  code?: number;
}

/**
 * Opens a terminal in an element and returns what ends it. The seat says which
 * terminal it is, and is kept current, so that it can be found again. Coming
 * back shows what it wrote since the beginning.
 */
export function openTerminal(box: HTMLElement, address: (rows: number, cols: number) => Promise<string>, seat: Seat, dark: boolean, onEnd: (why: string) => void): () => void {
  const term = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 13,
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    scrollback: 5000,
    theme: dark ? darkTheme : lightTheme,
    allowProposedApi: false,
    // Links that a program writes are not followed.
    linkHandler: { activate: () => {}, allowNonHttpProtocols: false },
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  const sheets = withSheets(document, () => term.open(box));
  fit.fit();
  seat.offset = 0;
  let ended = false;
  let socket: WebSocket | null = null;
  const open = () => socket?.readyState === WebSocket.OPEN;
  const encoder = new TextEncoder();
  const size = () => open() && socket!.send(JSON.stringify({ type: "resize", rows: term.rows, cols: term.cols }));
  const hear = (e: MessageEvent<ArrayBuffer | string>) => {
    if (typeof e.data !== "string") {
      seat.offset += e.data.byteLength;
      term.write(new Uint8Array(e.data));
      return;
    }
    const said = JSON.parse(e.data) as Said;
    if (said.type === "ready") seat.terminal = said.terminal ?? "";
    else if (said.type === "gap") {
      seat.offset += said.bytes ?? 0;
      term.write(`\r\n\x1b[2m[${said.bytes ?? 0} bytes left out]\x1b[0m\r\n`);
    } else if (said.type === "exit") {
      ended = true;
      seat.terminal = "";
      onEnd(`The shell has ended with ${said.code ?? 0}.`);
    }
  };
  const connect = async () => {
    const url = await address(term.rows, term.cols);
    if (ended) return;
    socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      size();
      term.focus();
    };
    socket.onmessage = hear;
    socket.onclose = (e) => {
      if (!ended) onEnd(e.reason || "The connection to the terminal broke off.");
    };
  };
  connect().catch((err: unknown) => !ended && onEnd(message(err)));
  term.onData((d) => open() && socket!.send(encoder.encode(d)));
  term.onBinary((d) => open() && socket!.send(Uint8Array.from(d, (c) => c.charCodeAt(0))));
  term.onResize(size);
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(box);
  return () => {
    ended = true;
    watch.disconnect();
    socket?.close();
    term.dispose();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !sheets.has(s));
  };
}

/**
 * Runs f while the document makes constructed style sheets instead of style
 * elements, and returns them. xterm.js writes its colours and sizes into
 * <style>, which the page's content security policy rightly blocks; sheets
 * made by script are not inline styles.
 */
export function withSheets(doc: Document, f: () => void): Set<CSSStyleSheet> {
  const sheets = new Set<CSSStyleSheet>();
  const make = () => {
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    doc.adoptedStyleSheets = [...doc.adoptedStyleSheets, sheet];
    const el = Document.prototype.createElement.call(doc, "span");
    el.hidden = true;
    let text = "";
    Object.defineProperty(el, "textContent", {
      get: () => text,
      set: (v: string) => {
        text = v;
        sheet.replaceSync(v);
      },
    });
    return el;
  };
  doc.createElement = ((tag: string, o?: ElementCreationOptions) => (tag.toLowerCase() === "style" ? make() : Document.prototype.createElement.call(doc, tag, o))) as Document["createElement"];
  try {
    f();
  } finally {
    delete (doc as Partial<Document>).createElement;
  }
  return sheets;
}

const darkTheme = { background: "#0b0f0e", foreground: "#dbe4e2", cursor: "#4fd1c0", selectionBackground: "#2c4a46", black: "#1a2120", red: "#f1847b", green: "#7fd18b", yellow: "#e3bf6a", blue: "#82b1ff", magenta: "#d2a0f0", cyan: "#6fd3d3", white: "#dbe4e2", brightBlack: "#8a9795", brightRed: "#ff9f97", brightGreen: "#99e6a5", brightYellow: "#f4d58a", brightBlue: "#a5c8ff", brightMagenta: "#e4bdfb", brightCyan: "#93eaea", brightWhite: "#ffffff" };
const lightTheme = { background: "#fbfcfc", foreground: "#16201f", cursor: "#0b6e63", selectionBackground: "#bfe3dd", black: "#16201f", red: "#b42318", green: "#1a7030", yellow: "#8a5a00", blue: "#1557b0", magenta: "#7a2ea0", cyan: "#0b6b70", white: "#5d6a68", brightBlack: "#5d6a68", brightRed: "#c8321f", brightGreen: "#1f7d38", brightYellow: "#966400", brightBlue: "#1e66c7", brightMagenta: "#8b3bb3", brightCyan: "#0f7a80", brightWhite: "#16201f" };
