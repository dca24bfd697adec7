import { useState } from "react";
import { ApiError, message } from "../api/http";
import { changeModel } from "../api/memory";
import { Button, Field, Notice } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toast";
import { useJob } from "./context";

/** Lets another model go on with the job. */
export function ModelDialog({ onClose }: { onClose: () => void }) {
  const { id, view, setView } = useJob();
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const want = name.trim();
  const send = async () => {
    setBusy(true);
    setError(null);
    try {
      setView(await changeModel(id, want));
      toast(want === view.model ? "The job has that model already" : "Another model goes on from the next step");
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const ours = error instanceof ApiError && error.field === "model";
  return (
    <Dialog
      title="Another model"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button kind="primary" busy={busy} disabled={!want} onClick={() => void send()}>
            Go on with it
          </Button>
        </>
      }
    >
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (want) void send();
        }}
      >
        <Field label="Provider and name" placeholder={view.model || "provider:name"} value={name} maxLength={200} spellCheck={false} autoCapitalize="off" onChange={(e) => setName(e.target.value)} error={ours ? message(error) : ""} hint="anthropic:NAME, openai:NAME, gemini:NAME or chat:NAME" />
      </form>
      <p className="note">It takes over at the next step, with the task, the instructions, notes on what happened and the newest messages. The reasoning of the model before it is left out, and its cache is of no use: the first request is paid for in full.</p>
      {error !== null && !ours && <Notice tone="bad">{message(error)}</Notice>}
    </Dialog>
  );
}
