import { useEffect, useRef, useState } from "react";
import { message } from "../api/http";
import { say, settings } from "../api/jobs";
import { emptyDraft, isBlank, wholeText } from "../model/draft";
import { Button, Notice } from "../ui/controls";
import { DraftArea, DraftPieces, tooLarge } from "../ui/draft";
import { announce, toast } from "../ui/toast";
import { useShortcut } from "../ui/shortcuts";
import { Markdown } from "../ui/rich";
import { useNow } from "../ui/status";
import { clock } from "../model/format";
import { useJob, useReadOnly } from "./context";

/** Says something to the agent, or answers its question. */
export function Composer() {
  const { id, view, ended, setView, history } = useJob();
  const readOnly = useReadOnly();
  const [draft, setDraft] = useState(emptyDraft);
  const [max, setMax] = useState<number>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  const question = view.question ?? "";
  const asked = question ? history.items.findLast((i) => i.kind === "question" && !i.answered) : undefined;
  const now = useNow(!!asked);
  useShortcut("m", "Write to the agent", "Job", () => box.current?.focus(), !ended);
  useEffect(() => {
    if (question) announce(`The agent asks: ${question}`);
  }, [question]);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    el.style.height = "auto";
    el.style.height = `${Math.min(el.scrollHeight + 2, 200)}px`;
  }, [draft.text]);
  const long = draft.pastes.length > 0 || draft.text.length > 8_000;
  useEffect(() => {
    if (!long) return;
    const abort = new AbortController();
    settings(abort.signal).then(
      (s) => setMax(s.max_message_bytes),
      () => {}, // the server says what is too much
    );
    return () => abort.abort();
  }, [long]);
  if (ended || readOnly) return null;

  const send = async () => {
    if (isBlank(draft) || busy || tooLarge(draft, max)) return;
    setBusy(true);
    setError("");
    try {
      setView(await say(id, wholeText(draft)));
      setDraft(emptyDraft);
      toast(question ? "Answered" : "Said. The agent reads it at its next step");
    } catch (err) {
      setError(message(err));
    }
    setBusy(false);
    box.current?.focus();
  };
  return (
    <form
      className={`composer ${question ? "asked" : ""}`}
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      {question && (
        <div className="asked-text">
          <p className="asked-head">
            <strong>The agent asks</strong>
            {asked?.kind === "question" && asked.until && <span className="muted">goes on without an answer in {clock(Date.parse(asked.until) - now)}</span>}
          </p>
          <Markdown text={question} />
        </div>
      )}
      {error && <Notice tone="bad">{error}</Notice>}
      <DraftPieces draft={draft} onDraft={setDraft} max={max} disabled={busy} />
      <div className="composer-row">
        <DraftArea
          box={box}
          draft={draft}
          onDraft={setDraft}
          rows={1}
          readOnly={busy}
          aria-label={question ? "Your answer" : "Say something to the agent"}
          placeholder={question ? "Your answer" : "Say something to the agent"}
          onKeyDown={(e) => {
            // Return sends, as where people write to each other; with Shift it
            // is a new line, and where there is no other keyboard than the screen's.
            const plain = !e.shiftKey && !e.altKey && !e.nativeEvent.isComposing && !matchMedia("(pointer: coarse)").matches;
            if (e.key === "Enter" && (e.ctrlKey || e.metaKey || plain)) {
              e.preventDefault();
              void send();
            }
            if (e.key === "Escape") e.currentTarget.blur();
          }}
        />
        <Button kind="primary" type="submit" icon="send" busy={busy} disabled={isBlank(draft) || tooLarge(draft, max)}>
          {question ? "Answer" : "Send"}
        </Button>
      </div>
    </form>
  );
}
