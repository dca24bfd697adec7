import { useEffect, useRef, useState } from "react";
import { message } from "../api/http";
import { makePlace, type Place } from "../api/machine";
import { Button, IconButton, Notice, Spinner } from "../ui/controls";
import { useJob } from "./context";

/**
 * Leaves the keyboard to someone who writes in a field of ours when the page in
 * a frame takes it by itself, as JupyterLab does once it has loaded. A person
 * gets into the frame with the pointer or by Tab.
 */
function useOwnKeyboard() {
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    let byTab = false;
    const onKey = (e: KeyboardEvent) => {
      byTab = e.key === "Tab";
    };
    const onFocusOut = (e: FocusEvent) => {
      const field = e.target;
      if (byTab || !(field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement)) return;
      // What a finger points at is not told of a frame.
      if (matchMedia("(pointer: coarse)").matches || frame.current?.matches(":hover")) return;
      setTimeout(() => {
        if (frame.current && document.activeElement === frame.current) field.focus();
      });
    };
    addEventListener("keydown", onKey, true);
    addEventListener("focusout", onFocusOut, true);
    return () => {
      removeEventListener("keydown", onKey, true);
      removeEventListener("focusout", onFocusOut, true);
    };
  }, []);
  return frame;
}

/** Something that the machine serves, in a frame with an origin that is not ours. */
export function Framed({ port, title, path }: { port: number | "notebook"; title: string; path?: string }) {
  const { id } = useJob();
  const frame = useOwnKeyboard();
  const [place, setPlace] = useState<Place | null>(null);
  const [error, setError] = useState("");
  const [round, setRound] = useState(0);
  const [loaded, setLoaded] = useState(false);
  useEffect(() => {
    let gone = false;
    setPlace(null);
    setLoaded(false);
    setError("");
    makePlace(id, port === "notebook" ? { notebook: true, path } : { port, path }).then(
      (p) => !gone && setPlace(p),
      (err) => !gone && setError(message(err)),
    );
    return () => {
      gone = true;
    };
  }, [id, port, path, round]);
  // An address is good for one visit: the tab needs one of its own.
  const newTab = async () => {
    try {
      const p = await makePlace(id, port === "notebook" ? { notebook: true, path } : { port, path });
      window.open(p.url, "_blank", "noopener,noreferrer");
    } catch (err) {
      setError(message(err));
    }
  };
  return (
    <div className="framed">
      <div className="frame-bar">
        <IconButton icon="refresh" label="Load again" onClick={() => setRound((r) => r + 1)} />
        <code className="frame-url">{title}</code>
        {place?.own && (
          <Button small kind="quiet" onClick={() => void newTab()}>
            In a new tab
          </Button>
        )}
      </div>
      {error ? (
        <Notice
          tone="warn"
          action={
            <Button small onClick={() => setRound((r) => r + 1)}>
              Try again
            </Button>
          }
        >
          {error}
        </Notice>
      ) : place ? (
        // Where it has no origin of its own, the frame gives it none either.
        <iframe ref={frame} onLoad={() => setLoaded(true)} title={title} src={place.url} referrerPolicy="no-referrer" sandbox={`allow-scripts allow-forms allow-modals allow-popups allow-downloads${place.own ? " allow-same-origin" : ""}`} />
      ) : null}
      {!error && (!place || (port === "notebook" && !loaded)) && (
        <div className="loading" role="status">
          <Spinner />
          {port === "notebook" && <p>JupyterLab starts when it is first opened. That takes a moment.</p>}
        </div>
      )}
    </div>
  );
}
