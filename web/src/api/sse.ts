// An event stream read with fetch: EventSource can't send a token.

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Splits a text/event-stream into its events, however its pieces fall. */
export class EventParser {
  private rest = "";
  private event = "";
  private data: string[] = [];
  private lastId = "";

  /** Returns the events that end within text. */
  push(text: string): ServerEvent[] {
    const out: ServerEvent[] = [];
    let all = this.rest + text;
    // A carriage return at the very end may be half of a line break.
    const held = all.endsWith("\r") ? "\r" : "";
    if (held) all = all.slice(0, -1);
    const lines = all.split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + held;
    for (const line of lines) {
      const e = this.line(line);
      if (e) out.push(e);
    }
    return out;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const e = this.data.length > 0 ? { id: this.lastId, event: this.event || "message", data: this.data.join("\n") } : null;
      this.event = "";
      this.data = [];
      return e;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id") this.lastId = value;
    return null;
  }
}
