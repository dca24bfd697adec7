import { describe, expect, it } from "vitest";
import { EventParser } from "../api/sse";
import { groupEgress } from "../job/network";
import { bucket } from "../job/usage";
import { parseAnsi, plain } from "./ansi";
import { skipped, withoutRoot } from "./attach";
import { pack } from "./pack";
import { strFromU8, unzipSync } from "fflate";
import { ago, bytes, clock, count, dollars, duration, title } from "./format";
import { highlight, languageOf } from "./highlight";
import { imageType } from "./inert";
import { atMost, limitForms, parseLimit } from "./limits";
import { toolLine } from "./tools";
import type { ToolItem } from "./history";

describe("EventParser", () => {
  const stream = 'retry: 1000\n\n: still here\n\nid: 1\nevent: notice\ndata: {"a":1}\n\nevent: model.delta\ndata: two\ndata: lines\n\r\nid: 2\r\ndata: x\r\n\r\n';
  it("reads the same however the pieces fall", () => {
    const whole = new EventParser().push(stream);
    expect(whole).toEqual([
      { id: "1", event: "notice", data: '{"a":1}' },
      { id: "1", event: "model.delta", data: "two\nlines" },
      { id: "2", event: "message", data: "x" },
    ]);
    for (let size = 1; size < 20; size++) {
      const p = new EventParser();
      const out = [];
      for (let i = 0; i < stream.length; i += size) out.push(...p.push(stream.slice(i, i + size)));
      expect(out).toEqual(whole);
    }
  });
});

describe("terminal output", () => {
  it("keeps colours and drops all else", () => {
    expect(parseAnsi("\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b[2J\x1b[38;5;2mgreen\x1b[38;2;1;2;3mx")).toEqual([
      { text: "red", fg: "red", bold: true, dim: false, italic: false, underline: false },
      { text: " plain", fg: "", bold: false, dim: false, italic: false, underline: false },
      { text: "green", fg: "green", bold: false, dim: false, italic: false, underline: false },
      { text: "x", fg: "green", bold: false, dim: false, italic: false, underline: false },
    ].map((r, i) => (i === 3 ? { ...r, text: "" } : r)).filter((r) => r.text).map((r) => (r.text === "green" ? { ...r, text: "greenx" } : r)));
  });
  it("shows what a terminal would show of a line that was written again", () => {
    expect(parseAnsi("10%\r50%\r100%\nnext\r\n").map((r) => r.text).join("")).toBe("100%\nnext\n");
  });
  it("lets no control through", () => {
    expect(plain("a\x00b\x07c\x1b\u202e")).toBe("abc\ufffd");
    expect(parseAnsi("\x1b[999999999999m\x1b[;;;mx\x1b").map((r) => r.text).join("")).toBe("x");
  });
});

describe("highlighting", () => {
  it("loses not a character", () => {
    const text = 'const a = "x\\"y"; // done\n/* more\nlines */ let `t${1}` = 0x1f;\n';
    for (const lang of ["ts", "go", "py", "html", "css", "json", "sql", "sh", ""]) {
      expect(highlight(text, lang).map((l) => l.map((t) => t.text).join("")).join("\n")).toBe(text);
    }
  });
  it("knows languages by their names", () => {
    expect([languageOf("a/b.TSX"), languageOf("Makefile"), languageOf("x.unknown"), languageOf("constructor")]).toEqual(["tsx", "makefile", "", ""]);
    expect(highlight("return 1", "ts")[0]).toEqual([{ kind: "keyword", text: "return" }, { kind: "", text: " " }, { kind: "number", text: "1" }]);
  });
});

describe("limits", () => {
  const cost = limitForms.find((f) => f.name === "cost_micros")!;
  const tokens = limitForms.find((f) => f.name === "tokens")!;
  const memory = limitForms.find((f) => f.name === "memory_bytes")!;
  it("are read as people write them", () => {
    expect([parseLimit(cost, "2.5"), parseLimit(cost, "2,5"), parseLimit(tokens, "1 000 000"), parseLimit(tokens, "1,000,000"), parseLimit(memory, "0.5"), parseLimit(cost, "")]).toEqual([2_500_000, 2_500_000, 1_000_000, 1_000_000, 2 ** 29, 0]);
    for (const bad of ["-1", "1e9", "abc", "0", "1.2.3", "0x10", "99999999999999999999"]) expect(parseLimit(tokens, bad)).toBeNull();
  });
  it("say what a job costs at most", () => {
    expect(atMost({ cost_micros: 5_000_000, tokens: 1_000_000, wall_time_seconds: 3600 })).toEqual({ main: "$5.00", rest: "1M tokens \u00b7 1 h" });
    expect(atMost({ tokens: 20_000_000, steps: 300 })).toEqual({ main: "20M tokens", rest: "300 steps \u00b7 no limit of money" });
  });
});

describe("numbers in words", () => {
  it("read well", () => {
    expect([bytes(999), bytes(1500), bytes(110_000), bytes(999_960)]).toEqual(["999 B", "1.5 kB", "110 kB", "1.0 MB"]);
    expect([count(999), count(1234), count(999_499), count(20_000_000)]).toEqual(["999", "1.23k", "999k", "20M"]);
    expect([dollars(0), dollars(5), dollars(1_234_567), dollars(2_000_000_000)]).toEqual(["$0", "<$0.01", "$1.23", "$2,000"]);
    expect([clock(7000), clock(754_000), clock(3_723_000)]).toEqual(["0:07", "12:34", "1:02:03"]);
    expect([duration(250), duration(3200), duration(95_000), duration(4 * 3_600_000)]).toEqual(["250 ms", "3.2 s", "1 min 35 s", "4 h 00 min"]);
    expect(ago(new Date(0).toISOString(), 130_000)).toBe("2 min ago");
    expect(title("\n\n## Build it\nmore")).toBe("Build it");
  });
});

// jsdom's Blob has nothing else to read it by.
const bytesOf = (blob: Blob) =>
  new Promise<Uint8Array>((done) => {
    const r = new FileReader();
    r.onload = () => done(new Uint8Array(r.result as ArrayBuffer));
    r.readAsArrayBuffer(blob);
  });

describe("files", () => {
  it("leave out what is made again, and the folder around them", () => {
    expect([skipped("a/node_modules/x.js"), skipped("a/src/x.js"), skipped("node_modules")]).toEqual([true, false, false]);
    const f = (path: string) => ({ path, file: new File([], "x") });
    expect(withoutRoot([f("app/a"), f("app/b/c")]).map((x) => x.path)).toEqual(["a", "b/c"]);
    expect(withoutRoot([f("app/a"), f("b")]).map((x) => x.path)).toEqual(["app/a", "b"]);
  });
  it("are packed into a zip, and not into one that is too large", async () => {
    const texts: Record<string, string> = { "src/ä.txt": "text ".repeat(1000), "a.png": "not squeezed", empty: "" };
    const files = Object.entries(texts).map(([path, text]) => ({ path, file: { size: text.length, stream: () => new Response(text).body! } as File }));
    const { blob, files: n } = await pack(files, 1 << 20);
    const entries = unzipSync(await bytesOf(blob));
    expect(n).toBe(3);
    expect(Object.fromEntries(Object.entries(entries).map(([name, b]) => [name, strFromU8(b)]))).toEqual(texts);
    await expect(pack(files, 20)).rejects.toThrow("larger than the server takes");
  });

  it("are pictures only by their first bytes", () => {
    expect(imageType(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]))).toBe("image/png");
    expect(imageType(new TextEncoder().encode("<svg xmlns='http://www.w3.org/2000/svg'>"))).toBe("");
    expect(imageType(new TextEncoder().encode("<!doctype html>"))).toBe("");
  });
});

describe("sums", () => {
  it("take attempts of one host together, refusals first", () => {
    const e = { seq: 1, time: "t", step: 1, host: "h", port: 443, allowed: true, reason: "rule h, from the package cache", up: 1, down: 10, count: 2, cached: true };
    const groups = groupEgress([e, { ...e, cached: false, reason: "rule h" }, { ...e, allowed: false, reason: "no rule" }]);
    expect(groups.map((g) => [g.allowed, g.count, g.down, g.cached])).toEqual([[false, 2, 0, 10], [true, 4, 10, 10]]);
  });
  it("take steps together where there are many", () => {
    const points = Array.from({ length: 1000 }, (_, i) => ({ time: i, step: i, input: 1, cached: 2, output: 3, tokens: i, costMicros: 0 }));
    const b = bucket(points, 80);
    expect(b.length).toBeLessThanOrEqual(80);
    expect(b[0]).toMatchObject({ input: 1, cached: 2, output: 3 });
    expect(b.at(-1)!.tokens).toBe(999);
  });
});

describe("tools that look into the past", () => {
  const line = (name: string, input: unknown) => toolLine({ name, input } as ToolItem).object;
  it("say what they look for", () => {
    expect(line("recall", { words: "why cents", exact: ["a_b"], regexp: "c+", file: "x.go" })).toBe('why cents "a_b" /c+/ in x.go');
    expect(line("recall", { tool: "shell" })).toBe("in shell");
    expect(line("recall", null)).toBe("");
    expect(line("open_event", { event: 120 })).toBe("120");
    expect(line("note", { name: "decisions", text: "x" })).toBe("decisions");
  });
});
