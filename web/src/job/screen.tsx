// The screen of the machine: live while the job runs, its recording afterwards
// and whenever a step in the past is looked at.
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError, jobLink, message } from "../api/http";
import { screenSocket, setControl } from "../api/machine";
import { Button, Empty, Notice, Spinner } from "../ui/controls";
import { toast } from "../ui/toast";
import { Picture } from "./images";
import { useJob, useMayControl, useReadOnly } from "./context";
import { ShareButton } from "./share";

type Rfb = InstanceType<typeof import("@novnc/novnc").default>;
type LiveState = { at: "connecting" | "live" } | { at: "off"; why: string; retry: boolean };

export default function Screen() {
  const { step, ended, view, history } = useJob();
  const machine = view.status === "running" && !!view.sandbox?.id;
  if (step !== null || ended) return <Recorded />;
  if (!machine) return <Empty icon="screen" title={view.status === "pending" ? "The job waits for a worker" : "The machine is being prepared"} />;
  return <Live key={view.sandbox?.id ?? history.lastSeq} />;
}

function Recorded() {
  const { history, step, ended } = useJob();
  const last = history.steps.at(-1)?.step ?? 0;
  const frame = history.frameAt(step ?? last);
  if (!frame) return <Empty icon="screen" title={history.frames.length > 0 ? "No picture yet at this step" : "Nothing was recorded of the screen"}>{history.frames.length === 0 && <p>The job did its work without one.</p>}</Empty>;
  return (
    <div className="screen recorded">
      <div className="screen-bar">
        <span className="tag">Recording</span>
        <span className="muted">
          {frame.step === (step ?? last) ? `step ${frame.step}` : `unchanged since step ${frame.step}`}
          {ended && step === null ? ", the last picture" : ""}
        </span>
      </div>
      <div className="screen-frame" data-handle={frame.blob}>
        <Picture handle={frame.blob} alt={`The screen at step ${frame.step}`} />
      </div>
    </div>
  );
}

function Live() {
  const { id, view, setView } = useJob();
  const box = useRef<HTMLDivElement>(null);
  const rfb = useRef<Rfb | null>(null);
  const [state, setState] = useState<LiveState>({ at: "connecting" });
  const [round, setRound] = useState(0);
  const [busy, setBusy] = useState(false);
  const mine = view.control === "user";
  const readOnly = useReadOnly();
  const mayControl = useMayControl();

  // The server decides whether input passes; here it is only not sent in vain.
  const holds = useRef(mine);
  useEffect(() => {
    holds.current = mine;
    if (rfb.current) rfb.current.viewOnly = !mine;
  }, [mine]);

  useEffect(() => {
    let gone = false;
    setState({ at: "connecting" });
    const connect = async () => {
      try {
        const [url, { default: RFB }] = await Promise.all([screenSocket(id), import("@novnc/novnc")]);
        if (gone || !box.current) return;
        const r = new RFB(box.current, url, { shared: true });
        rfb.current = r;
        r.viewOnly = !holds.current;
        r.scaleViewport = true;
        r.background = "transparent";
        r.focusOnClick = true;
        r.addEventListener("connect", () => !gone && setState({ at: "live" }));
        r.addEventListener("disconnect", () => {
          if (rfb.current === r) rfb.current = null;
          if (!gone) setState({ at: "off", why: "The screen went away.", retry: true });
        });
        r.addEventListener("securityfailure", () => !gone && setState({ at: "off", why: "The display refused the connection.", retry: true }));
      } catch (err) {
        if (!gone) setState({ at: "off", why: message(err), retry: !(err instanceof ApiError && err.status === 404) });
      }
    };
    void connect();
    return () => {
      gone = true;
      try {
        rfb.current?.disconnect();
      } catch {
        // It was gone already.
      }
      rfb.current = null;
    };
  }, [id, round]);

  // A screen that went away often comes back by itself.
  useEffect(() => {
    if (state.at !== "off" || !state.retry || round > 5) return;
    const t = setTimeout(() => setRound((r) => r + 1), 1500 * (round + 1));
    return () => clearTimeout(t);
  }, [state, round]);

  const take = useCallback(async () => {
    setBusy(true);
    try {
      setView(await setControl(id, mine ? "agent" : "user"));
      toast(mine ? "The agent has mouse and keyboard again" : "Mouse and keyboard are yours");
    } catch (err) {
      if (err instanceof ApiError && err.status === 403) jobLink.watchOnly(id);
      toast(message(err), "bad");
    }
    setBusy(false);
  }, [id, mine, setView]);

  return (
    <div className={`screen live ${mine ? "mine" : ""}`}>
      <div className="screen-bar">
        <span className={`tag ${state.at === "live" ? "on" : ""}`}>{state.at === "live" ? "Live" : state.at === "connecting" ? "Connecting" : "Off"}</span>
        <span className="muted">{!mayControl ? "You watch" : mine ? "You have mouse and keyboard" : "The agent has mouse and keyboard"}</span>
        <span className="bar-end">
          {!readOnly && <ShareButton />}
          {mayControl && (
            <Button small kind={mine ? "primary" : "plain"} icon="hand" busy={busy} onClick={() => void take()}>
              {mine ? "Give back" : "Take over"}
            </Button>
          )}
        </span>
      </div>
      <div className="screen-frame" data-keys="own">
        <div className="vnc" ref={box} role="application" aria-label={mine ? "The machine's screen; keys go to it" : "The machine's screen, to watch"} />
        {state.at === "connecting" && (
          <div className="screen-cover">
            <Spinner />
          </div>
        )}
        {state.at === "off" && (
          <div className="screen-cover">
            <Notice
              tone="warn"
              action={
                <Button small icon="refresh" onClick={() => setRound((r) => r + 1)}>
                  Try again
                </Button>
              }
            >
              {state.why}
            </Notice>
          </div>
        )}
      </div>
    </div>
  );
}
