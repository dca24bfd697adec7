// Foreign text as elements: Markdown, terminal output, code, diffs. Nothing
// here ever makes HTML out of a string.
import { createElement, memo, useMemo, useState, type ReactNode } from "react";
import { parseAnsi, plain } from "../model/ansi";
import type { DiffLine, FileDiff } from "../model/diff";
import { highlight, languageOf, type Token } from "../model/highlight";
import { parseMarkdown, type BlockNode, type Inline } from "../model/markdown";
import { Button, IconButton } from "./controls";
import { ExternalLink } from "./link";
import { copyText } from "./toast";

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tree = useMemo(() => parseMarkdown(plain(text)), [text]);
  return <div className="markdown">{tree.map(block)}</div>;
});

function block(n: BlockNode, key: number): ReactNode {
  switch (n.t) {
    case "p":
      return <p key={key}>{n.children.map(inline)}</p>;
    case "h":
      // The page has its own headings above; those of a text come below them.
      return createElement(`h${Math.min(6, n.level + 2)}`, { key }, n.children.map(inline));
    case "code":
      return <CodeBlock key={key} text={n.text} language={languageOf(n.lang.toLowerCase())} />;
    case "quote":
      return <blockquote key={key}>{n.children.map(block)}</blockquote>;
    case "hr":
      return <hr key={key} />;
    case "list":
      return list(n, key);
    case "table":
      return (
        <div key={key} className="table-wrap" tabIndex={0} role="group" aria-label="Table">
          <table>
            <thead>
              <tr>
                {n.head.map((c, i) => (
                  <th key={i}>{c.map(inline)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {n.rows.map((r, i) => (
                <tr key={i}>
                  {r.map((c, j) => (
                    <td key={j}>{c.map(inline)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
}

function list(n: BlockNode & { t: "list" }, key: number): ReactNode {
  const items = n.items.map((item, i) => (
    <li key={i} className={item.checked === null ? "" : "task-item"}>
      {item.checked !== null && <input type="checkbox" checked={item.checked} readOnly disabled aria-label={item.checked ? "done" : "open"} />}
      {item.children.length === 1 && item.children[0]!.t === "p" ? item.children[0]!.children.map(inline) : item.children.map(block)}
    </li>
  ));
  return n.ordered ? (
    <ol key={key} start={n.start}>
      {items}
    </ol>
  ) : (
    <ul key={key}>{items}</ul>
  );
}

function inline(n: Inline, key: number): ReactNode {
  switch (n.t) {
    case "text":
      return n.text;
    case "code":
      return <code key={key}>{n.text}</code>;
    case "br":
      return <br key={key} />;
    case "link":
      return (
        <ExternalLink key={key} href={n.href} text={inlineText(n.children)}>
          {n.children.map((c, i) => (c.t === "link" || c.t === "image" ? inlineText([c]) : inline(c, i)))}
        </ExternalLink>
      );
    case "image":
      // Never loaded: the address is shown instead.
      return <ExternalLink key={key} href={n.href} text={`Image: ${n.alt || "untitled"}`} />;
    default:
      return createElement(n.t, { key }, n.children.map(inline));
  }
}

function inlineText(nodes: Inline[]): string {
  return nodes.map((n) => (n.t === "text" || n.t === "code" ? n.text : n.t === "image" ? n.alt : n.t === "br" ? " " : inlineText(n.children))).join("");
}

/** What a program wrote, with its colours. */
export const Ansi = memo(function Ansi({ text }: { text: string }) {
  const runs = useMemo(() => parseAnsi(text), [text]);
  return (
    <>
      {runs.map((r, i) => {
        const cls = [r.fg && `fg-${r.fg}`, r.bold && "b", r.dim && "dim", r.italic && "i", r.underline && "u"].filter(Boolean).join(" ");
        return cls ? (
          <span key={i} className={cls}>
            {r.text}
          </span>
        ) : (
          r.text
        );
      })}
    </>
  );
});

export function Tokens({ tokens }: { tokens: Token[] }) {
  return (
    <>
      {tokens.map((t, i) =>
        t.kind ? (
          <span key={i} className={`tk-${t.kind}`}>
            {t.text}
          </span>
        ) : (
          t.text
        ),
      )}
    </>
  );
}

export const CodeBlock = memo(function CodeBlock({ text, language }: { text: string; language: string }) {
  const lines = useMemo(() => highlight(plain(text), language), [text, language]);
  return (
    <div className="code-block">
      <pre tabIndex={0} role="group" aria-label="Code">
        <code>
          {lines.map((l, i) => (
            <span key={i}>
              <Tokens tokens={l} />
              {i < lines.length - 1 ? "\n" : ""}
            </span>
          ))}
        </code>
      </pre>
      <IconButton icon="copy" label="Copy" onClick={() => void copyText(text)} />
    </div>
  );
});

/** A long text, cut until more of it is asked for. */
export function Output({ text, lines = 14, label = "Output" }: { text: string; lines?: number; label?: string }) {
  const [all, setAll] = useState(false);
  const parts = useMemo(() => text.replace(/\n+$/, "").split("\n"), [text]);
  const cut = !all && parts.length > lines + 4;
  const shown = cut ? [...parts.slice(0, Math.ceil(lines * 0.4)), null, ...parts.slice(-Math.floor(lines * 0.6))] : parts;
  const split = shown.indexOf(null);
  return (
    <div className="output">
      <pre tabIndex={0} role="group" aria-label={label}>
        {split < 0 ? (
          <Ansi text={shown.join("\n")} />
        ) : (
          <>
            <Ansi text={shown.slice(0, split).join("\n") + "\n"} />
            <Button kind="quiet" small className="more-lines" onClick={() => setAll(true)}>
              {parts.length - lines} more lines
            </Button>
            <Ansi text={"\n" + shown.slice(split + 1).join("\n")} />
          </>
        )}
      </pre>
    </div>
  );
}

const marks = { same: " ", add: "+", del: "\u2212" };

/** The hunks of one file's diff. */
export const DiffHunks = memo(function DiffHunks({ diff, bound = 400 }: { diff: FileDiff; bound?: number }) {
  const [all, setAll] = useState(false);
  const lang = languageOf(diff.path);
  let budget = all ? Infinity : bound;
  const total = diff.hunks.reduce((n, h) => n + h.lines.length, 0);
  if (diff.binary) return <p className="diff-note">A binary file.</p>;
  if (total === 0) return <p className="diff-note">No line differs.</p>;
  return (
    <div className="diff" role="group" aria-label={`Changes of ${diff.path}`} tabIndex={0}>
      <table>
        <tbody>
          {diff.hunks.map((h, i) => {
            const lines = h.lines.slice(0, Math.max(0, budget));
            budget -= h.lines.length;
            if (lines.length === 0) return null;
            return [
              i > 0 && (
                <tr key={`h${i}`} className="hunk">
                  <td colSpan={3}>{h.header}</td>
                </tr>
              ),
              ...lines.map((l, j) => <DiffRow key={`${i}.${j}`} line={l} lang={lang} />),
            ];
          })}
        </tbody>
      </table>
      {!all && total > bound && (
        <Button kind="quiet" small className="more-lines" onClick={() => setAll(true)}>
          {total - bound} more lines
        </Button>
      )}
    </div>
  );
});

function DiffRow({ line, lang }: { line: DiffLine; lang: string }) {
  return (
    <tr className={line.kind}>
      <td className="ln">{line.old || ""}</td>
      <td className="ln">{line.new || ""}</td>
      <td className="lt">
        <span className="mark">{marks[line.kind]}</span>
        <Tokens tokens={highlight(plain(line.text), lang)[0] ?? []} />
      </td>
    </tr>
  );
}

export function DiffStat({ added, deleted }: { added: number; deleted: number }) {
  if (added < 0 || deleted < 0) return <span className="diff-stat">binary</span>;
  return (
    <span className="diff-stat">
      {added > 0 && <span className="add">+{added}</span>}
      {deleted > 0 && <span className="del">&minus;{deleted}</span>}
    </span>
  );
}
