// The items of the timeline. All of their text is foreign.
import { memo, useMemo, type ReactNode } from "react";
import type { Draft, Item, ToolItem } from "../model/history";
import { duration, timeOfDay } from "../model/format";
import { inputText, opensByItself, resultText, toolCode, toolDiffs, toolLine } from "../model/tools";
import { plain } from "../model/ansi";
import { Spinner } from "../ui/controls";
import { Icon, type IconName } from "../ui/icons";
import { CodeBlock, DiffHunks, DiffStat, Markdown, Output } from "../ui/rich";
import { statusWord } from "../ui/status";
import { BlockImage, WholeOutput } from "./images";
import { cutMessage, memoryItem } from "./memoryitems";
import { Fold, Verbatim } from "./notes";
import { ProofList } from "./proofs";

/** What only says how the machinery goes. */
export const isQuiet = (i: Item): boolean => i.kind === "system" && i.tone === "quiet";

interface Props {
  item: Item;
  newStep: boolean;
  fold: boolean | undefined;
  onFold: (key: string, open: boolean) => void;
}

export const ItemView = memo(function ItemView({ item, newStep, fold, onFold }: Props) {
  return (
    <>
      {newStep && (
        <div className="step-mark" title={timeOfDay(item.time)}>
          <span>Step {item.step}</span>
        </div>
      )}
      {body(item, fold, (open) => onFold(item.key, open))}
    </>
  );
});

const maxWords = 6000; // characters of a task or a message that are shown at once

/** What a person wrote; a long text can be unfolded. */
function Words({ text }: { text: string }) {
  if (text.length <= maxWords) return <Markdown text={text} />;
  return (
    <>
      <Markdown text={text.slice(0, maxWords) + "\n\u2026"} />
      <Fold title="More of it">{() => <Verbatim text={text} />}</Fold>
    </>
  );
}

function body(item: Item, fold: boolean | undefined, onFold: (open: boolean) => void): ReactNode {
  switch (item.kind) {
    case "task":
      return (
        <Said who="You asked for" icon="flag" time={item.time}>
          <Words text={item.text} />
        </Said>
      );
    case "message":
      return (
        <Said who="You said" icon="user" time={item.time}>
          <Words text={item.text} />
          {item.blob && (
            <>
              <p className="small muted">{cutMessage(item.size)}</p>
              <WholeOutput handle={item.blob} />
            </>
          )}
        </Said>
      );
    case "text":
      return (
        <div className="item-text">
          <Markdown text={item.text} />
        </div>
      );
    case "reasoning":
      return <Reasoning text={item.text} open={fold ?? false} onFold={onFold} />;
    case "tool":
      return <Tool item={item} open={fold ?? opensByItself(item)} onFold={onFold} />;
    case "plan":
      return (
        <p className="item-line">
          <Icon name="list" />
          <span>
            Plan: {item.done} of {item.steps.length} done{item.active && <span className="muted">, now: {plain(item.active)}</span>}
          </span>
        </p>
      );
    case "question":
      return (
        <div className={`item-box ask ${item.answered ? "" : "open"}`}>
          <p className="item-head">
            <Icon name="question" /> <strong>The agent asked</strong>
          </p>
          <Markdown text={item.text} />
        </div>
      );
    case "notice":
      return (
        <div className="item-box warn">
          <p className="item-head">
            <Icon name="info" /> <strong>Glovebox told the agent</strong>
          </p>
          <p className="pre-wrap">{plain(item.text)}</p>
        </div>
      );
    case "egress":
      return (
        <p className="item-line refused">
          <Icon name="block" />
          <span>
            Refused: the sandbox tried to reach{" "}
            <code>
              {plain(item.host)}:{item.port}
            </code>
            {item.count > 1 && ` ${item.count} times`} <span className="muted">({plain(item.reason)})</span>
          </span>
        </p>
      );
    default:
      return ending(item);
  }
}

function ending(item: Item): ReactNode {
  switch (item.kind) {
    case "system":
      return (
        <p className={`item-line system ${item.tone}`}>
          {item.tone === "bad" || item.tone === "warn" ? <Icon name="warn" /> : <span className="line-dot" aria-hidden="true" />}
          <span>
            {item.text}
            {item.detail && <span className="muted"> &middot; {plain(item.detail)}</span>}
          </span>
          <time className="item-time" dateTime={item.time}>
            {timeOfDay(item.time)}
          </time>
        </p>
      );
    case "verified":
      return (
        <div className={`item-box ${item.passed ? "good" : "bad"}`}>
          <p className="item-head">
            <Icon name={item.passed ? "check" : "warn"} /> <strong>{item.passed ? "The proofs hold" : "A proof failed"}</strong>
          </p>
          <ProofList proofs={item.proofs} compact />
        </div>
      );
    case "finished":
      return (
        <div className={`item-box end ${item.status === "complete" ? "good" : item.status === "error" ? "bad" : ""}`}>
          <p className="item-head">
            <Icon name={item.status === "complete" ? "check" : item.status === "error" ? "warn" : "stop"} /> <strong>{statusWord(item.status)}</strong>
            <time className="item-time" dateTime={item.time}>
              {timeOfDay(item.time)}
            </time>
          </p>
          {item.failure && (
            <p className="pre-wrap">
              {plain(item.failure.message)} {item.failure.hint && <span className="muted">{plain(item.failure.hint)}</span>}
            </p>
          )}
          {!item.failure && item.summary && <Markdown text={item.summary} />}
        </div>
      );
    default:
      return memoryItem(item);
  }
}

function Said({ who, icon, time, children }: { who: string; icon: IconName; time: string; children: ReactNode }) {
  return (
    <div className="item-box said">
      <p className="item-head">
        <Icon name={icon} /> <strong>{who}</strong>
        <time className="item-time" dateTime={time}>
          {timeOfDay(time)}
        </time>
      </p>
      {children}
    </div>
  );
}

function Reasoning({ text, open, onFold, live }: { text: string; open: boolean; onFold: (open: boolean) => void; live?: boolean }) {
  return (
    <div className={`item-fold reasoning ${open ? "open" : ""}`}>
      <button type="button" className="fold-head" aria-expanded={open} onClick={() => onFold(!open)}>
        <Icon name="chevron" />
        <span className="fold-kind">{live ? "Thinking" : "Thought"}</span>
        {!open && <span className="fold-peek">{plain(text).trim().split("\n").at(live ? -1 : 0)}</span>}
      </button>
      {open && (
        <div className="fold-body">
          <Markdown text={text} />
        </div>
      )}
    </div>
  );
}

const stateText = { running: "running", ok: "", error: "failed", unknown: "outcome unknown" };

const Tool = memo(function Tool({ item, open, onFold }: { item: ToolItem & Item; open: boolean; onFold: (open: boolean) => void }) {
  const line = useMemo(() => toolLine(item), [item]);
  const diffs = useMemo(() => toolDiffs(item), [item]);
  return (
    <div className={`item-tool ${item.state} ${open ? "open" : ""}`}>
      <button type="button" className="tool-head" aria-expanded={open} onClick={() => onFold(!open)}>
        <Icon name={line.icon} />
        <span className="tool-verb">{line.verb}</span>
        {line.object && <code className="tool-object">{plain(line.object)}</code>}
        <span className="tool-end">
          {diffs.length > 0 && <DiffStat added={diffs.reduce((n, d) => n + d.added, 0)} deleted={diffs.reduce((n, d) => n + d.deleted, 0)} />}
          {stateText[item.state] && <span className="tool-state">{stateText[item.state]}</span>}
          {item.state === "running" ? <Spinner /> : item.durationMs >= 100 && <span className="tool-time">{duration(item.durationMs)}</span>}
          <Icon name="chevron" />
        </span>
      </button>
      {open && <ToolBody item={item} />}
    </div>
  );
});

function ToolBody({ item }: { item: ToolItem }) {
  const diffs = useMemo(() => toolDiffs(item), [item]);
  const code = useMemo(() => toolCode(item), [item]);
  const text = item.state === "running" ? item.live : resultText(item);
  // A diff says what such a tool did; its answer only repeats it.
  const said = diffs.length > 0 && item.state === "ok" ? "" : text;
  return (
    <div className="tool-body">
      {code && code.text && <CodeBlock text={code.text} language={code.language} />}
      {diffs.map((d, i) => (
        <div key={i}>
          {diffs.length > 1 && <p className="diff-path">{plain(d.path)}</p>}
          <DiffHunks diff={d} bound={60} />
        </div>
      ))}
      {said && <Output text={said} />}
      {item.state === "running" && !said && diffs.length === 0 && <p className="muted small">No output so far.</p>}
      {item.content.map((b, i) => b.type === "image" && <BlockImage key={i} block={b} />)}
      {item.blob && <WholeOutput handle={item.blob} />}
    </div>
  );
}

/** The answer that is being written. */
export function DraftView({ draft }: { draft: Draft; version: number }) {
  return (
    <div className="draft">
      {draft.reasoning && <Reasoning text={draft.reasoning} open={false} live onFold={() => {}} />}
      {draft.text && (
        <div className="item-text">
          <Markdown text={draft.text} />
        </div>
      )}
      {draft.tools.map((t, i) => (
        <div key={i} className="item-tool running open">
          <p className="tool-head">
            <Spinner />
            <span className="tool-verb">Writing a call of</span> <code className="tool-object">{plain(t.name)}</code>
          </p>
          {t.input && (
            <div className="tool-body">
              <pre className="draft-input">{plain(unescaped(inputText(t.input))).slice(-1200)}</pre>
            </div>
          )}
        </div>
      ))}
      <span className="caret" aria-hidden="true" />
    </div>
  );
}

/** JSON in the making, with its line breaks as line breaks. */
const unescaped = (s: string): string => s.replace(/\\n/g, "\n").replace(/\\t/g, "\t").replace(/\\"/g, '"');
