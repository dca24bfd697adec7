// What listens inside the machine, shown in a frame that can't reach this page.
import { useEffect, useState } from "react";
import { message } from "../api/http";
import { listPorts, type Port } from "../api/machine";
import { plain } from "../model/ansi";
import { Empty, Notice, Segmented } from "../ui/controls";
import { useJob } from "./context";
import { Framed } from "./framed";

const name = (p: Port): string => (p.process ? `${p.port} ${plain(p.process)}` : String(p.port));

export default function Preview() {
  const { id, ended } = useJob();
  const [ports, setPorts] = useState<Port[] | null>(null);
  const [error, setError] = useState("");
  const [chosen, setChosen] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const load = async () => {
      try {
        setPorts(await listPorts(id, abort.signal));
        setError("");
      } catch (err) {
        if (!abort.signal.aborted) setError(message(err));
      }
      if (!abort.signal.aborted && !ended) timer = setTimeout(() => void load(), 3000);
    };
    void load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, ended]);
  if (ports === null && error) return <Notice tone="warn">{error}</Notice>;
  if (!ports || ports.length === 0)
    return (
      <Empty icon="globe" title="Nothing listens in the machine">
        <p>When the agent starts a server, its port appears here by itself.</p>
      </Empty>
    );
  const port = ports.find((p) => p.port === chosen) ?? ports[0]!;
  return (
    <div className="preview">
      {ports.length > 1 && (
        <div className="screen-bar">
          <Segmented label="Port" value={String(port.port)} choices={ports.map((p) => ({ value: String(p.port), label: name(p) }))} onChange={(v) => setChosen(Number(v))} />
        </div>
      )}
      <Framed key={port.port} port={port.port} title={`Port ${name(port)}`} />
    </div>
  );
}
