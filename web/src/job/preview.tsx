// What listens inside the machine, shown in a frame that can't reach this page.
import { useEffect, useState } from "react";
import { message } from "../api/http";
import { listPorts, type Port } from "../api/machine";
import { plain } from "../model/ansi";
import { Button, Empty, Notice } from "../ui/controls";
import { useJob } from "./context";
import { Framed } from "./framed";

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
      <div className="screen-bar">
        <div className="port-list" role="group" aria-label="Ports">
          {ports.map((p) => (
            <Button key={p.port} small kind={p.port === port.port ? "primary" : "plain"} aria-pressed={p.port === port.port} onClick={() => setChosen(p.port)}>
              {p.port}
              {p.process ? ` ${plain(p.process)}` : ""}
            </Button>
          ))}
        </div>
      </div>
      <Framed key={port.port} port={port.port} title={`Port ${port.port} of the machine`} />
    </div>
  );
}
