// Light highlighting: comments, strings, numbers, keywords. It never fails,
// and never takes more than one pass.

export type TokenKind = "" | "comment" | "string" | "number" | "keyword" | "tag" | "key";

export interface Token {
  kind: TokenKind;
  text: string;
}

interface Language {
  pattern: RegExp; // named groups are kinds
  keywords: Set<string>;
}

const words = (s: string) => new Set(s.split(" "));
const string = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
const number = String.raw`\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b`;
const word = String.raw`[A-Za-z_$][\w$]*`;

const slashes = (keywords: string): Language => ({
  pattern: new RegExp(String.raw`(?<comment>\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<string>${string}|\x60(?:\\.|[^\\\x60])*\x60?)|(?<number>${number})|(?<word>${word})`, "g"),
  keywords: words(keywords),
});
const hashes = (keywords: string, triple = false): Language => ({
  pattern: new RegExp(String.raw`(?<comment>#[^\n]*)|(?<string>${triple ? String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|` : ""}${string})|(?<number>${number})|(?<word>${word})`, "g"),
  keywords: words(keywords),
});

const js = slashes("abstract as async await break case catch class const continue debugger default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private protected public readonly return satisfies set static super switch this throw true try type typeof undefined var void while with yield");
const go = slashes("break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var");
const c = slashes("auto bool break case catch char class const constexpr continue default delete do double else enum extern false final float fn for if impl in inline int let long loop match mod mut namespace new null nullptr package private protected pub public return self short signed sizeof static struct super switch template this throw trait true try typedef typename union unsigned use using virtual void volatile where while");
const python = hashes("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield", true);
const shell = hashes("case do done elif else esac exit export fi for function if in local return set shift then until while");
const config = hashes("true false null yes no on off");
const sql = {
  pattern: new RegExp(String.raw`(?<comment>--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<string>${string})|(?<number>${number})|(?<word>${word})`, "g"),
  keywords: words("select from where insert into values update set delete create table index drop alter add primary key references not null and or in is as join left right inner outer on group by order having limit offset union all distinct begin commit rollback SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX DROP ALTER ADD PRIMARY KEY REFERENCES NOT NULL AND OR IN IS AS JOIN LEFT RIGHT INNER OUTER ON GROUP BY ORDER HAVING LIMIT OFFSET UNION ALL DISTINCT BEGIN COMMIT ROLLBACK"),
};
const markup: Language = {
  pattern: /(?<comment><!--[\s\S]*?(?:-->|$))|(?<tag><\/?[A-Za-z][\w:.-]*|\/?>)|(?<string>"[^"\n]*"|'[^'\n]*')/g,
  keywords: new Set(),
};
const css: Language = {
  pattern: new RegExp(String.raw`(?<comment>\/\*[\s\S]*?(?:\*\/|$))|(?<string>${string})|(?<key>(?:--)?[A-Za-z-]+(?=\s*:\s))|(?<keyword>@[\w-]+)|(?<number>#[\da-fA-F]{3,8}\b|-?\d+(?:\.\d+)?(?:[a-z]+|%)?)`, "g"),
  keywords: new Set(),
};
const json: Language = {
  pattern: new RegExp(String.raw`(?<key>"(?:\\.|[^"\\\n])*"(?=\s*:))|(?<string>"(?:\\.|[^"\\\n])*"?)|(?<number>-?${number})|(?<word>\w+)`, "g"),
  keywords: words("true false null"),
};

const byExtension: Record<string, Language> = Object.create(null) as Record<string, Language>;
const assign = (l: Language, exts: string) => exts.split(" ").forEach((e) => (byExtension[e] = l));
assign(js, "js jsx mjs cjs ts tsx mts cts javascript typescript");
assign(go, "go");
assign(c, "c h cc cpp hpp cs java kt rs swift scala php dart zig proto rust");
assign(python, "py pyi python");
assign(shell, "sh bash zsh shell console dockerfile makefile mk");
assign(config, "yaml yml toml ini conf env rb r properties gitignore");
assign(sql, "sql");
assign(markup, "html htm xml svg vue svelte");
assign(css, "css scss less");
assign(json, "json jsonc ipynb webmanifest");

const maxLength = 400_000; // characters; longer text is shown plain

/** The language of a path or of a code block's label. */
export function languageOf(path: string): string {
  const name = (path.split("/").pop() ?? "").toLowerCase();
  const ext = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : name;
  return ext in byExtension ? ext : "";
}

/** The tokens of a text, line by line. */
export function highlight(text: string, language: string): Token[][] {
  const lang = byExtension[language];
  if (!lang || text.length > maxLength) return text.split("\n").map((l) => [{ kind: "", text: l }]);
  const lines: Token[][] = [[]];
  const push = (kind: TokenKind, s: string) => {
    const parts = s.split("\n");
    parts.forEach((p, i) => {
      if (i > 0) lines.push([]);
      if (p) lines.at(-1)!.push({ kind, text: p });
    });
  };
  let at = 0;
  for (const m of text.matchAll(lang.pattern)) {
    push("", text.slice(at, m.index));
    at = m.index + m[0].length;
    const g = m.groups ?? {};
    if (g.word !== undefined) push(lang.keywords.has(g.word) ? "keyword" : "", g.word);
    else push((Object.keys(g).find((k) => g[k] !== undefined) ?? "") as TokenKind, m[0]);
  }
  push("", text.slice(at));
  return lines;
}
