// Every attempt to reach something outside the sandbox.
import { useMemo, useState } from "react";
import { bytes, timeOfDay } from "../model/format";
import type { EgressEntry } from "../model/history";
import { plain } from "../model/ansi";
import { Empty, Segmented } from "../ui/controls";
import { useJob } from "./context";

interface Group {
  key: string;
  host: string;
  port: number;
  allowed: boolean;
  reason: string;
  count: number;
  up: number;
  down: number;
  cached: number;
  last: string;
}

export function groupEgress(list: EgressEntry[]): Group[] {
  const groups = new Map<string, Group>();
  for (const e of list) {
    const key = `${e.host}:${e.port}/${e.allowed}`;
    const g = groups.get(key) ?? { key, host: e.host, port: e.port, allowed: e.allowed, reason: e.reason.replace(/, from the package cache$/, ""), count: 0, up: 0, down: 0, cached: 0, last: e.time };
    g.count += e.count;
    g.up += e.up;
    if (e.cached) g.cached += e.down;
    else g.down += e.down;
    g.last = e.time;
    groups.set(key, g);
  }
  return [...groups.values()].sort((a, b) => Number(a.allowed) - Number(b.allowed) || b.count - a.count);
}

export function Network() {
  const { history, step, version } = useJob();
  const [show, setShow] = useState<"all" | "refused">("all");
  const groups = useMemo(() => groupEgress(history.egress.filter((e) => (step === null || e.step <= step) && (show === "all" || !e.allowed))), [history, step, show, version]);
  if (history.egress.length === 0)
    return (
      <Empty icon="network" title="The sandbox reached for nothing">
        <p>Every attempt to connect to the outside is listed here, also those that were refused.</p>
      </Empty>
    );
  return (
    <div className="network">
      <Segmented
        label="Show"
        value={show}
        choices={[
          { value: "all", label: "All" },
          { value: "refused", label: "Refused" },
        ]}
        onChange={setShow}
      />
      <div className="table-wrap" tabIndex={0} role="group" aria-label="Connections">
        <table className="data">
          <thead>
            <tr>
              <th>Host</th>
              <th>Decision</th>
              <th className="num">Times</th>
              <th className="num">Sent</th>
              <th className="num">Received</th>
              <th className="num">Cached</th>
              <th className="num">Last</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((g) => (
              <tr key={g.key} className={g.allowed ? "" : "refused"}>
                <td>
                  <code>
                    {plain(g.host)}
                    {g.port !== 443 && `:${g.port}`}
                  </code>
                </td>
                <td>
                  <span className={`decision ${g.allowed ? "yes" : "no"}`}>{g.allowed ? "allowed" : "refused"}</span> <span className="muted">{plain(g.reason)}</span>
                </td>
                <td className="num">{g.count}</td>
                <td className="num">{bytes(g.up)}</td>
                <td className="num">{bytes(g.down)}</td>
                <td className="num">{g.cached ? bytes(g.cached) : ""}</td>
                <td className="num">{timeOfDay(g.last)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
