import { useEffect, useRef, useState } from "react";
import { message } from "../api/http";
import { say } from "../api/jobs";
import { Button, Notice } from "../ui/controls";
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
  const [text, setText] = useState("");
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
  }, [text]);
  if (ended || readOnly) return null;

  const send = async () => {
    if (!text.trim() || busy) return;
    setBusy(true);
    setError("");
    try {
      setView(await say(id, text));
      setText("");
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
      <div className="composer-row">
        <textarea
          ref={box}
          rows={1}
          maxLength={65_536}
          aria-label={question ? "Your answer" : "Say something to the agent"}
          placeholder={question ? "Your answer" : "Say something to the agent"}
          value={text}
          onChange={(e) => setText(e.target.value)}
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
        <Button kind="primary" type="submit" icon="send" busy={busy} disabled={!text.trim()}>
          {question ? "Answer" : "Send"}
        </Button>
      </div>
    </form>
  );
}
