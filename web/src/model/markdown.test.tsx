import { render, screen } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { LinkDialog } from "../ui/link";
import { Ansi, CodeBlock, Markdown, Output } from "../ui/rich";
import { parseMarkdown, safeLink } from "./markdown";

// What a hostile page, file or model might say.
const hostile = [
  `<script>alert(1)</script>`,
  `<img src=x onerror=alert(1)>`,
  `<svg/onload=alert(1)>`,
  `<iframe src="javascript:alert(1)"></iframe>`,
  `<a href="javascript:alert(1)">x</a>`,
  `[x](javascript:alert(1))`,
  `[x](JaVaScRiPt:alert(1))`,
  `[x]( javascript:alert(1))`,
  `[x](java\nscript:alert(1))`,
  `[x](data:text/html,<script>alert(1)</script>)`,
  `[x](vbscript:msgbox(1))`,
  `[x](//evil.example/)`,
  `[x](/jobs)`,
  `[x](file:///etc/passwd)`,
  `[x](blob:https://evil.example/1)`,
  `![x](https://evil.example/track.png)`,
  `![x](javascript:alert(1))`,
  `[![x](https://evil.example/a.png)](https://evil.example/)`,
  `<https://evil.example/"onmouseover="alert(1)>`,
  `[x](https://evil.example/"onmouseover="alert(1))`,
  "```html\n<script>alert(1)</script>\n```",
  "`<img src=x onerror=alert(1)>`",
  `| a | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |`,
  `- [x] <script>alert(1)</script>\n- <style>*{display:none}</style>`,
  `> <form action=https://evil.example><input name=token></form>`,
  `&lt;script&gt;alert(1)&lt;/script&gt;`,
  `<!--><script>alert(1)</script>`,
  `\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007`,
  `<meta http-equiv=refresh content="0;url=https://evil.example">`,
  `<base href=https://evil.example/>`,
  `__proto__ constructor toString`,
];

const allowed = new Set("DIV P H3 H4 H5 H6 UL OL LI STRONG EM DEL CODE PRE BLOCKQUOTE HR TABLE THEAD TBODY TR TH TD BR BUTTON SPAN INPUT SVG PATH".split(" "));

function assertInert(container: HTMLElement): void {
  for (const el of container.querySelectorAll("*")) {
    expect(allowed).toContain(el.tagName.toUpperCase());
    for (const a of el.attributes) {
      expect(a.name).not.toMatch(/^on|^href$|^src|^srcset$|^action$|^formaction$|^style$/);
    }
    if (el.tagName === "INPUT") expect(el).toHaveProperty("type", "checkbox");
  }
}

describe("foreign text", () => {
  it.each(hostile)("is inert as Markdown: %s", (text) => {
    const { container } = render(<Markdown text={text} />);
    assertInert(container);
  });

  it.each(hostile)("is inert as output and as code: %s", (text) => {
    const { container } = render(
      <>
        <Output text={text} />
        <Ansi text={text} />
        <CodeBlock text={text} language="html" />
      </>,
    );
    assertInert(container);
    expect(container.textContent).not.toContain("\u001b");
  });

  it("shows HTML as the text that it is", () => {
    const { container } = render(<Markdown text={"<b>bold</b> & <script>alert(1)</script>"} />);
    expect(container.textContent).toBe("<b>bold</b> & <script>alert(1)</script>");
  });

  it("shows marks that reorder text", () => {
    const { container } = render(<Markdown text={"invoice\u202efdp.exe"} />);
    expect(container.textContent).toBe("invoice\ufffdfdp.exe");
  });
});

describe("links", () => {
  it("say where they go, and ask before they go there", async () => {
    const open = vi.spyOn(window, "open").mockImplementation(() => null);
    const { container } = render(
      <>
        <Markdown text="see [https://good.example](https://evil.example/path?q=1)" />
        <LinkDialog />
      </>,
    );
    expect(container.textContent).toContain("https://evil.example/path?q=1");
    expect(container.querySelector("a")).toBeNull();
    screen.getByRole("button").click();
    const link = await screen.findByText("Open in a new tab");
    const a = link.closest("a")!;
    expect(a.rel).toBe("noopener noreferrer");
    expect(a.target).toBe("_blank");
    expect(a.href).toBe("https://evil.example/path?q=1");
    expect(screen.getByText("evil.example")).toBeTruthy();
    expect(open).not.toHaveBeenCalled();
  });

  it("show look-alike names as they are written to the network", () => {
    expect(safeLink("https://\u0430pple.com/")?.host).toBe("xn--pple-43d.com");
  });

  it.each(["javascript:alert(1)", "data:text/html,x", "//evil.example", "/jobs", "mailto:a@b", "ftp://x", "https://", "http:evil.example", ""])("are dead when they are not plain addresses: %s", (href) => {
    expect(safeLink(href)).toBeNull();
  });
});

describe("Markdown", () => {
  it("knows what agents write", () => {
    const tree = parseMarkdown("# Title\n\nSome *text* with `code`, **strong**\nand https://example.org/a_b_c.\n\n1. one\n2. two\n   - nested\n\n```js\nlet x = 1;\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n---\n> quoted");
    expect(tree.map((n) => n.t)).toEqual(["h", "p", "list", "code", "table", "hr", "quote"]);
    const list = tree[2] as Extract<(typeof tree)[number], { t: "list" }>;
    expect(list.items).toHaveLength(2);
    expect(list.items[1]!.children.map((n) => n.t)).toEqual(["p", "list"]);
    const p = tree[1] as Extract<(typeof tree)[number], { t: "p" }>;
    expect(p.children.map((n) => n.t)).toEqual(["text", "em", "text", "code", "text", "strong", "text", "link", "text"]);
  });

  it("leaves names with underscores and lone stars alone", () => {
    expect(parseMarkdown("snake_case_name and 2 * 3 * 4")).toEqual([{ t: "p", children: [{ t: "text", text: "snake_case_name and 2 * 3 * 4" }] }]);
  });

  const repeated = ["[", "*", "`", "> ", "- ", "**a ", "![](", "_a", "*a", "~~a", "<https://", "https://", "[a](", "[a](b", "``a`", "__a", " **", "`a``", "[[a]", "\\", "a  ", "1. ", "# ", "|-|\n", "- a\n\n", "```\n", "> a\n- b\n"];
  it.each(repeated)("ends soon, however it was made: %j", (s) => {
    const text = s.repeat(Math.ceil(99_000 / s.length)).slice(0, 99_000);
    const lines = text.replace(/(.{19000})/g, "$1\n\n");
    const began = performance.now();
    parseMarkdown(text);
    parseMarkdown(lines);
    expect(performance.now() - began).toBeLessThan(4000);
  });
});
