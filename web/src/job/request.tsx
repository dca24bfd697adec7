// The exact request to the model of a step, as the server builds it from the log.
import { useEffect, useState, type ReactNode } from "react";
import { message } from "../api/http";
import { getRequest, type WireRequest } from "../api/memory";
import type { Block, RequestView } from "../api/types";
import { bytes, count, plural } from "../model/format";
import { inputText } from "../model/tools";
import { plain } from "../model/ansi";
import { Loading, Notice } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { useJob } from "./context";
import { BlockImage } from "./images";
import { firstLine, Fold, Verbatim } from "./notes";

export function RequestDialog({ step, onClose }: { step: number; onClose: () => void }) {
  const { id } = useJob();
  const [view, setView] = useState<RequestView | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    getRequest(id, step, abort.signal).then(setView, (err) => !abort.signal.aborted && setError(message(err)));
    return () => abort.abort();
  }, [id, step]);
  return (
    <Dialog title={`What the model saw at step ${step}`} onClose={onClose} wide>
      {error ? <Notice tone="bad">{error}</Notice> : view ? <Request view={view} /> : <Loading />}
    </Dialog>
  );
}

function Request({ view }: { view: RequestView }) {
  const r = view.request as WireRequest;
  const first = r.messages[0]?.blocks ?? [];
  const opening = view.opening ?? [];
  const head = first.filter((_, i) => opening[i] === "head");
  const folded = first.filter((_, i) => opening[i] === "folded");
  const rest = first.slice(opening.length);
  return (
    <div className="request" tabIndex={0} role="group" aria-label="The request">
      {view.same ? (
        <p className="note">
          The same bytes as were sent: {bytes(view.bytes)}, epoch {view.epoch}, SHA-256 <code>{view.sha256.slice(0, 12)}&hellip;</code>
          {view.attempts > 1 && `, attempt ${view.attempt} of ${view.attempts}`}
        </p>
      ) : (
        <Notice tone="warn">This is not what was sent: another version or other settings of the server made that. It is what would be sent now.</Notice>
      )}
      <Part title="Head" says={`never folded, about ${count(view.use.head)} tokens`} className="head">
        <Fold title="Rules" peek={firstLine(r.system)}>
          {() => <Verbatim text={r.system} />}
        </Fold>
        <Fold title={plural(r.tools?.length ?? 0, "tool")} peek={(r.tools ?? []).map((t) => t.name).join(", ")}>
          {() =>
            (r.tools ?? []).map((t) => (
              <Fold key={t.name} title={<code>{plain(t.name)}</code>} peek={firstLine(t.description)}>
                {() => <Verbatim text={`${t.description}\n\n${inputText(t.schema)}`} />}
              </Fold>
            ))
          }
        </Fold>
        {head.map((b, i) => (
          <BlockFold key={i} role="user" block={b} as={["The workspace", "The task"][i]} />
        ))}
      </Part>
      {folded.length > 0 && (
        <Part title="Folded" says={`stands for what happened before, about ${count(view.use.folded)} tokens`} className="folded">
          {folded.map((b, i) => (
            <BlockFold key={i} role="user" block={b} />
          ))}
        </Part>
      )}
      <Part title="Tail" says={`word for word, about ${count(view.use.tail)} tokens`} className="tail">
        {rest.map((b, i) => (
          <BlockFold key={i} role="user" block={b} />
        ))}
        {r.messages.slice(1).map((m, i) => (
          <div key={i}>
            {(m.blocks ?? []).map((b, j) => (
              <BlockFold key={j} role={m.role} block={b} />
            ))}
          </div>
        ))}
      </Part>
    </div>
  );
}

function Part({ title, says, className, children }: { title: string; says: string; className: string; children: ReactNode }) {
  return (
    <section className={`request-part ${className}`}>
      <h3>
        {title} <small className="muted">{says}</small>
      </h3>
      {children}
    </section>
  );
}

function BlockFold({ role, block, as }: { role: string; block: Block; as?: string }) {
  const [title, text] = blockText(role, block, as);
  const peek = block.type === "tool_use" ? text.replace(/\s+/g, " ") : text;
  return (
    <Fold title={title} tag={block.is_error ? "error" : undefined} peek={firstLine(peek)}>
      {() => (
        <>
          {text && <Verbatim text={text} />}
          {[block, ...(block.content ?? [])].map((b, i) => b.type === "image" && <BlockImage key={i} block={b} />)}
        </>
      )}
    </Fold>
  );
}

/** The title of a block, and its text. */
function blockText(role: string, b: Block, as?: string): [string, string] {
  switch (b.type) {
    case "tool_use":
      return [`Call of ${plain(b.name ?? "")}`, inputText(b.input)];
    case "tool_result":
      return [
        "Result",
        (b.content ?? [])
          .map((c) => (c.type === "image" ? "[picture]" : (c.text ?? "")))
          .join("\n"),
      ];
    case "reasoning":
      return ["Thought", b.text || "Only the provider can read it."];
    case "image":
      return ["Picture", ""];
    default:
      return [as ?? (role === "assistant" ? "The model" : "To the model"), b.text ?? ""];
  }
}
