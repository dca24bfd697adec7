// A terminal in the machine while it lives; what the shells wrote afterwards.
import { useEffect, useRef, useState } from "react";
import { message } from "../api/http";
import { terminalSocket, type Seat } from "../api/machine";
import type { ToolItem } from "../model/history";
import { blocksText } from "../model/history";
import { toolLine } from "../model/tools";
import { plain } from "../model/ansi";
import { isDark, useTheme } from "../theme";
import { Button, Empty, Notice } from "../ui/controls";
import { Ansi } from "../ui/rich";
import { useJob } from "./context";

export default function Terminal() {
  const { step, ended, view } = useJob();
  if (step !== null || ended) return <Past />;
  if (view.status !== "running" || !view.sandbox?.id) return <Empty icon="terminal" title="There is no machine yet" />;
  return <Live key={view.sandbox.id} />;
}

const shells = new Set(["shell", "shell_output", "shell_input", "run_tests", "install_package", "code"]);

/** What ran until the step that is looked at. */
function Past() {
  const { history, step } = useJob();
  const end = useRef<HTMLDivElement>(null);
  const runs = history.items.filter((i): i is ToolItem & typeof i => i.kind === "tool" && shells.has(i.name) && (step === null || i.step <= step)).slice(-60);
  useEffect(() => {
    end.current?.scrollIntoView({ block: "end" }); // newer browsers return a promise, which is no clean-up
  }, [step]);
  if (runs.length === 0) return <Empty icon="terminal" title="No command was run so far" />;
  return (
    <div className="terminal-past" tabIndex={0} role="log" aria-label="What the commands wrote">
      {runs.map((r) => (
        <div key={r.key} className={r.step === step ? "now" : ""}>
          <p className="prompt">
            <span aria-hidden="true">$</span> {plain(toolLine(r).object || toolLine(r).verb)}
          </p>
          <pre>
            <Ansi text={(blocksText(r.content) || r.live).slice(-20_000)} />
          </pre>
        </div>
      ))}
      <div ref={end} />
    </div>
  );
}

// The terminal of each job, so that leaving the tab and coming back finds it again.
const seats = new Map<string, Seat>();

function seatOf(id: string): Seat {
  let seat = seats.get(id);
  if (!seat) seats.set(id, (seat = { terminal: "", offset: 0 }));
  return seat;
}

function Live() {
  const { id } = useJob();
  const box = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const [fault, setFault] = useState("");
  const [round, setRound] = useState(0);
  useEffect(() => {
    let gone = false;
    let stop = () => {};
    setFault("");
    const start = async () => {
      try {
        const { openTerminal } = await import("./xterm");
        if (gone || !box.current) return;
        const address = (rows: number, cols: number) => terminalSocket(id, seatOf(id), rows, cols);
        stop = openTerminal(box.current, address, seatOf(id), isDark(), (why) => !gone && setFault(why));
      } catch (err) {
        if (!gone) setFault(message(err));
      }
    };
    void start();
    return () => {
      gone = true;
      stop();
    };
  }, [id, theme, round]);
  return (
    <div className="terminal-live">
      {fault && (
        <Notice
          tone="warn"
          action={
            <Button small icon="refresh" onClick={() => {
                seats.delete(id);
                setRound((r) => r + 1);
              }}
            >
              Open again
            </Button>
          }
        >
          {fault}
        </Notice>
      )}
      <div className="xterm-box" data-keys="own" ref={box} />
    </div>
  );
}
