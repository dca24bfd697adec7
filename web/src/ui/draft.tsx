// A text area that takes what is pasted into it at any length.
import type { Ref, TextareaHTMLAttributes } from "react";
import { draftBytes, pasted, typed, type Draft } from "../model/draft";
import { bytes } from "../model/format";
import { plain } from "../model/ansi";
import { IconButton } from "./controls";
import { Icon } from "./icons";
import { announce } from "./toast";

type AreaProps = Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "value" | "onChange" | "maxLength"> & { draft: Draft; onDraft: (d: Draft) => void; box: Ref<HTMLTextAreaElement> };

export function DraftArea({ draft, onDraft, box, ...rest }: AreaProps) {
  const take = (next: Draft) => {
    if (next.pastes.length > draft.pastes.length) announce(`The text of ${bytes(next.pastes.at(-1)!.bytes)} is kept beside what you write`);
    onDraft(next);
  };
  return (
    <textarea
      {...rest}
      ref={box}
      value={draft.text}
      onChange={(e) => take(typed(draft, e.target.value))}
      onPaste={(e) => {
        if (rest.readOnly) return;
        const area = e.currentTarget;
        const next = pasted(draft, e.clipboardData.getData("text/plain"), area.selectionStart, area.selectionEnd);
        if (!next) return;
        e.preventDefault();
        take(next);
      }}
    />
  );
}

const shownFrom = 16_000; // bytes from which the size is of interest

/** What was pasted, each piece with its size, and how large all is if that is much. */
export function DraftPieces({ draft, onDraft, max, disabled }: { draft: Draft; onDraft: (d: Draft) => void; max?: number; disabled?: boolean }) {
  const size = draftBytes(draft);
  if (size < shownFrom && draft.pastes.length === 0) return null;
  return (
    <div className="draft-pieces">
      {draft.pastes.map((p) => (
        <p key={p.key} className="draft-piece">
          <Icon name="file" />
          <span>
            Pasted text, {bytes(p.bytes)} <span className="muted">{plain(p.text.slice(0, 200)).trim().split("\n", 1)[0]}</span>
          </span>
          <IconButton icon="cross" label={`Remove the pasted text of ${bytes(p.bytes)}`} disabled={disabled} onClick={() => onDraft({ ...draft, pastes: draft.pastes.filter((x) => x !== p) })} />
        </p>
      ))}
      {tooLarge(draft, max) ? (
        <p className="note bad" role="alert">
          That is {(size - max!).toLocaleString("en-US")} bytes more than the {bytes(max!)} that the server takes. Nothing was left out: shorten it, or send the material as files.
        </p>
      ) : (
        <p className="note">
          {bytes(size)}
          {max ? ` of at most ${bytes(max)}` : ""}
          {draft.pastes.length > 0 && ". What was pasted is sent after what you write."}
        </p>
      )}
    </div>
  );
}

/** Whether the server would refuse it for its size. */
export const tooLarge = (draft: Draft, max?: number): boolean => max !== undefined && draftBytes(draft) > max;
