// Markdown to a tree of plain data. There is no HTML in it at any point: what
// looks like HTML is text.

export type Inline =
  | { t: "text"; text: string }
  | { t: "code"; text: string }
  | { t: "strong" | "em" | "del"; children: Inline[] }
  | { t: "link"; href: string; children: Inline[] }
  | { t: "image"; href: string; alt: string }
  | { t: "br" };

export type BlockNode =
  | { t: "p"; children: Inline[] }
  | { t: "h"; level: number; children: Inline[] }
  | { t: "code"; lang: string; text: string }
  | { t: "quote"; children: BlockNode[] }
  | { t: "list"; ordered: boolean; start: number; items: { checked: boolean | null; children: BlockNode[] }[] }
  | { t: "table"; head: Inline[][]; rows: Inline[][][] }
  | { t: "hr" };

const maxLength = 100_000; // characters; longer text is one paragraph
const maxDepth = 8;

export function parseMarkdown(text: string): BlockNode[] {
  if (text.length > maxLength) return [{ t: "p", children: [{ t: "text", text }] }];
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const bullet = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( +)(.*))?$/;
const rule = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const delimiter = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

function blocks(lines: string[], depth: number): BlockNode[] {
  const out: BlockNode[] = [];
  let i = 0;
  let para: string[] = [];
  const flush = () => {
    if (para.length > 0) out.push({ t: "p", children: inlines(para.join("\n"), depth) });
    para = [];
  };
  while (i < lines.length) {
    const line = lines[i]!;
    const m = fence.exec(line);
    if (m) {
      flush();
      const end = closing(lines, i + 1, m[1]!);
      out.push({ t: "code", lang: m[2] ?? "", text: lines.slice(i + 1, end).join("\n") });
      i = end + 1;
      continue;
    }
    if (line.trim() === "") {
      flush();
      i++;
      continue;
    }
    const h = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (h) {
      flush();
      out.push({ t: "h", level: h[1]!.length, children: inlines(h[2]!, depth) });
      i++;
      continue;
    }
    if (rule.test(line)) {
      flush();
      out.push({ t: "hr" });
      i++;
      continue;
    }
    const taken = container(lines, i, para.length > 0, depth);
    if (taken) {
      flush();
      out.push(taken.node);
      i = taken.next;
      continue;
    }
    para.push(line.trim());
    i++;
  }
  flush();
  return out;
}

function closing(lines: string[], from: number, mark: string): number {
  const re = new RegExp(`^ {0,3}${mark[0] === "`" ? "`" : "~"}{${mark.length},}\\s*$`);
  for (let i = from; i < lines.length; i++) if (re.test(lines[i]!)) return i;
  return lines.length;
}

/** A quote, list or table that begins at line i, if one does. */
function container(lines: string[], i: number, inParagraph: boolean, depth: number): { node: BlockNode; next: number } | null {
  if (depth >= maxDepth) return null;
  const line = lines[i]!;
  if (/^ {0,3}>/.test(line)) {
    const inner: string[] = [];
    while (i < lines.length && /^ {0,3}>/.test(lines[i]!)) inner.push(lines[i++]!.replace(/^ {0,3}> ?/, ""));
    return { node: { t: "quote", children: blocks(inner, depth + 1) }, next: i };
  }
  const b = bullet.exec(line);
  if (b && !(inParagraph && (b[4] ?? "") === "")) return list(lines, i, depth);
  if (line.includes("|") && i + 1 < lines.length && lines[i + 1]!.includes("-") && delimiter.test(lines[i + 1]!)) return table(lines, i, depth);
  return null;
}

function list(lines: string[], from: number, depth: number): { node: BlockNode; next: number } {
  const first = bullet.exec(lines[from]!)!;
  const ordered = /\d/.test(first[2]!);
  const node: BlockNode & { t: "list" } = { t: "list", ordered, start: ordered ? parseInt(first[2]!, 10) : 1, items: [] };
  let i = from;
  while (i < lines.length) {
    const m = bullet.exec(lines[i]!);
    if (!m || /\d/.test(m[2]!) !== ordered || rule.test(lines[i]!)) break;
    const indent = m[1]!.length + m[2]!.length + Math.min(m[3]?.length ?? 1, 4);
    const inner = [m[4] ?? ""];
    i++;
    while (i < lines.length) {
      const l = lines[i]!;
      const lead = l.length - l.trimStart().length;
      if (l.trim() === "") {
        const next = lines[i + 1];
        if (next === undefined || next.trim() === "" || next.length - next.trimStart().length < Math.min(indent, 2)) break;
        inner.push("");
      } else if (lead >= Math.min(indent, 2)) inner.push(l.slice(Math.min(lead, indent)));
      else break;
      i++;
    }
    // One blank line between items leaves the list as it is.
    if (lines[i]?.trim() === "" && bullet.test(lines[i + 1] ?? "")) i++;
    const task = /^\[([ xX])\]\s+/.exec(inner[0]!);
    if (task) inner[0] = inner[0]!.slice(task[0].length);
    node.items.push({ checked: task ? task[1] !== " " : null, children: blocks(inner, depth + 1) });
  }
  return { node, next: i };
}

function table(lines: string[], from: number, depth: number): { node: BlockNode; next: number } {
  const cells = (l: string) =>
    l
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((c) => inlines(c.trim().replace(/\\\|/g, "|"), depth));
  const head = cells(lines[from]!);
  const rows: Inline[][][] = [];
  let i = from + 2;
  while (i < lines.length && lines[i]!.trim() !== "" && lines[i]!.includes("|")) rows.push(cells(lines[i++]!).slice(0, head.length));
  return { node: { t: "table", head, rows }, next: i };
}

// In order of precedence: code, escapes, images, links, addresses, emphasis,
// breaks. Every repetition is bounded, so that no text takes long, however it
// was made.
const inline =
  /(?<!`)(?<ticks>`{1,8})(?!`)(?<code>[\s\S]{1,1000}?)(?<!`)\k<ticks>(?!`)|\\(?<esc>[!-/:-@[-`{-~])|!\[(?<alt>[^[\]\n]{0,300})\]\((?<src>[^()\s]{0,1000})(?: +"[^"\n]{0,200}")?\)|\[(?<label>[^[\]\n]{1,500})\]\((?<href><[^<>\n]{0,1000}>|(?:[^()\s]|\([^()\s]{0,100}\)){0,1000})(?: +"[^"\n]{0,200}")?\)|<(?<auto>https?:\/\/[^<>\s]{1,1000})>|(?<![\w/])(?<url>https?:\/\/[^\s<>"'`]{1,1000})|(?<strong>\*\*|__)(?=[^\s*_])(?<bold>[\s\S]{0,600}?[^\s])\k<strong>|~~(?=[^\s~])(?<del>[\s\S]{0,600}?[^\s])~~|(?<![\w*])(?<em>[*_])(?=[^\s*_])(?<it>[^*_\n]{0,600}?[^\s*_])\k<em>(?![\w*])|(?<br> {2,9}\n|\\\n)/g;
const maxParagraph = 20_000; // characters; a longer one has no marks

function inlines(text: string, depth: number): Inline[] {
  const out: Inline[] = [];
  const say = (s: string) => {
    if (!s) return;
    const last = out.at(-1);
    if (last?.t === "text") last.text += s;
    else out.push({ t: "text", text: s });
  };
  if (depth > maxDepth || text.length > maxParagraph) return [{ t: "text", text }];
  let at = 0;
  for (const m of text.matchAll(inline)) {
    say(text.slice(at, m.index));
    at = m.index + m[0].length;
    const g = m.groups!;
    if (g.code !== undefined) out.push({ t: "code", text: g.code.replace(/\n/g, " ").replace(/^ (.*[^ ].*) $/, "$1") });
    else if (g.esc !== undefined) say(g.esc);
    else if (g.src !== undefined) out.push({ t: "image", href: g.src, alt: g.alt ?? "" });
    else if (g.label !== undefined) out.push({ t: "link", href: (g.href ?? "").replace(/^<|>$/g, ""), children: inlines(g.label, maxDepth) });
    else if (g.auto !== undefined) out.push({ t: "link", href: g.auto, children: [{ t: "text", text: g.auto }] });
    else if (g.url !== undefined) {
      const url = g.url.replace(/[.,;:!?)\]}*_~]+$/, "");
      out.push({ t: "link", href: url, children: [{ t: "text", text: url }] });
      say(g.url.slice(url.length));
    } else if (g.bold !== undefined) out.push({ t: "strong", children: inlines(g.bold, depth + 1) });
    else if (g.del !== undefined) out.push({ t: "del", children: inlines(g.del, depth + 1) });
    else if (g.it !== undefined) out.push({ t: "em", children: inlines(g.it, depth + 1) });
    else out.push({ t: "br" });
  }
  say(text.slice(at));
  return out;
}

/** The address of a link that may be opened: http or https, in full. Null for all others. */
export function safeLink(href: string): URL | null {
  if (!/^https?:\/\//i.test(href.trim())) return null;
  try {
    const u = new URL(href.trim());
    return (u.protocol === "https:" || u.protocol === "http:") && u.host !== "" ? u : null;
  } catch {
    return null;
  }
}
