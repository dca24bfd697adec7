import { useState } from "react";
import { message } from "../api/http";
import { cancelJob, deleteJob } from "../api/jobs";
import { clock, count, dollars, title } from "../model/format";
import { limitText } from "../model/limits";
import { go, href } from "../router";
import { Button, Meter, Notice } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toast";
import { phaseWord, StatusBadge, useNow, workMs } from "../ui/status";
import { useJob, useReadOnly } from "./context";
import { LimitsDialog } from "./limits";
import { ModelDialog } from "./model";

export function JobHeader({ error }: { error: string; onRaise: () => void }) {
  const { view, connection, ended, history } = useJob();
  const readOnly = useReadOnly();
  const [dialog, setDialog] = useState<"" | "cancel" | "limits" | "task" | "delete" | "model">("");
  const close = () => setDialog("");
  const first = title(view.task);
  const long = view.task_bytes > first.length + 2;
  return (
    <header className="job-header">
      <div className="job-heading">
        <StatusBadge job={view} />
        <h1 title={first}>{first}</h1>
        {long && (
          <Button kind="quiet" small onClick={() => setDialog("task")}>
            Whole task
          </Button>
        )}
        <div className="job-actions" hidden={readOnly}>
          {view.error?.limit ? (
            <Button kind="primary" small onClick={() => setDialog("limits")}>
              Raise the limit and go on
            </Button>
          ) : (
            !ended && (
              <Button small onClick={() => setDialog("limits")}>
                Limits
              </Button>
            )
          )}
          {!ended && (
            <Button kind="danger" small icon="stop" onClick={() => setDialog("cancel")}>
              Cancel
            </Button>
          )}
          {ended && (
            <Button kind="quiet" small icon="trash" onClick={() => setDialog("delete")}>
              Delete
            </Button>
          )}
        </div>
      </div>
      <Figures onModel={ended || readOnly ? undefined : () => setDialog("model")} />
      {error && <Notice tone="warn">{error}</Notice>}
      {connection === "waiting" && !ended && <Notice tone="warn">The connection broke off. Trying again; nothing is lost.</Notice>}
      {dialog === "limits" && <LimitsDialog onClose={close} />}
      {dialog === "model" && <ModelDialog onClose={close} />}
      {dialog === "task" && (
        <Dialog title="The task" onClose={close} wide>
          <pre className="whole-task" tabIndex={0}>
            {history.task || view.task}
          </pre>
        </Dialog>
      )}
      {dialog === "cancel" && <CancelDialog onClose={close} />}
      {dialog === "delete" && <DeleteDialog onClose={close} />}
    </header>
  );
}

function Figures({ onModel }: { onModel?: () => void }) {
  const { view, fetchedAt } = useJob();
  const now = useNow(view.status === "running");
  const work = workMs(view, fetchedAt, now);
  const l = view.limits;
  const priced = view.usage.cost_micros > 0 || !!l.cost_micros;
  return (
    <dl className="figures">
      <div>
        <dt>Now</dt>
        <dd>{view.status === "pending" && view.queue_position ? `number ${view.queue_position} in the queue` : view.status === "running" ? phaseWord(view.phase) : view.status === "pending" ? "in the queue" : "ended"}</dd>
      </div>
      <div>
        <dt>Work time</dt>
        <dd>
          {clock(work)}
          {l.wall_time_seconds && <small> of {limitText("wall_time_seconds", l.wall_time_seconds)}</small>}
          <Meter value={work / 1000} max={l.wall_time_seconds} label="Work time" />
        </dd>
      </div>
      {priced && (
        <div>
          <dt>Cost</dt>
          <dd>
            {dollars(view.usage.cost_micros)}
            {l.cost_micros && <small> of {dollars(l.cost_micros)}</small>}
            <Meter value={view.usage.cost_micros} max={l.cost_micros} label="Cost" />
          </dd>
        </div>
      )}
      <div>
        <dt>Tokens</dt>
        <dd>
          {count(view.usage.tokens)}
          {l.tokens && <small> of {count(l.tokens)}</small>}
          <Meter value={view.usage.tokens} max={l.tokens} label="Tokens" />
        </dd>
      </div>
      <div>
        <dt>Steps</dt>
        <dd>
          {view.step}
          {l.steps && <small> of {l.steps}</small>}
          <Meter value={view.step} max={l.steps} label="Steps" />
        </dd>
      </div>
      <div className="model-figure">
        <dt>Model</dt>
        <dd title={view.model}>
          <span className="model-name">{shortModel(view.model)}</span>
          {onModel && (
            <button type="button" className="link" onClick={onModel} aria-label="Change the model">
              change
            </button>
          )}
        </dd>
      </div>
    </dl>
  );
}

function shortModel(m: string): string {
  const at = m.indexOf(":");
  const provider = m.slice(0, at);
  const name = m.slice(at + 1);
  if (!m) return "none";
  return provider === "replay" ? `replay of ${name.split("/").pop()}` : name || m;
}

function CancelDialog({ onClose }: { onClose: () => void }) {
  const { id, setView } = useJob();
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      setView(await cancelJob(id));
      toast("The job is being cancelled");
      onClose();
    } catch (err) {
      toast(message(err), "bad");
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Cancel this job?"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Let it run</Button>
          <Button kind="danger" busy={busy} onClick={() => void run()}>
            Cancel the job
          </Button>
        </>
      }
    >
      <p>The agent stops, its machine is removed, and what is in the workspace is packed as far as it got. This can&rsquo;t be undone.</p>
    </Dialog>
  );
}

function DeleteDialog({ onClose }: { onClose: () => void }) {
  const { id } = useJob();
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await deleteJob(id);
      toast("The job is deleted");
      go(href.jobs);
    } catch (err) {
      toast(message(err), "bad");
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Delete this job?"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button kind="danger" busy={busy} onClick={() => void run()}>
            Delete for good
          </Button>
        </>
      }
    >
      <p>Its events, recording and project go with it. What you downloaded stays yours.</p>
    </Dialog>
  );
}
