// What the model used over time, as a small chart and as figures.
import { useSyncExternalStore } from "react";
import { count, dollars, duration } from "../model/format";
import type { UsagePoint } from "../model/history";
import { Empty } from "../ui/controls";
import { useJob } from "./context";

const H = 180;
const phases = ["queued", "preparing", "working", "waiting", "verifying", "packing"];
const bars = 80; // at most; more steps are taken together

export function UsageChart() {
  const { history, view, step } = useJob();
  const points = history.usage;
  if (points.length === 0) return <Empty icon="chart" title="The model has not answered yet" />;
  const u = view.usage;
  const cachedShare = u.input + u.cache_read + u.cache_write > 0 ? u.cache_read / (u.input + u.cache_read + u.cache_write) : 0;
  return (
    <div className="usage">
      <dl className="usage-figures">
        <Figure name="Tokens" value={count(u.tokens)} />
        <Figure name="Cost" value={u.cost_micros ? dollars(u.cost_micros) : "no price"} />
        <Figure name="Answers" value={count(u.calls)} />
        <Figure name="From cache" value={`${Math.round(cachedShare * 100)} %`} />
        <Figure name="Written" value={count(u.output)} />
        {u.reasoning > 0 && <Figure name="Thinking" value={count(u.reasoning)} />}
      </dl>
      <figure>
        <figcaption>Tokens per step: read, from the cache, written</figcaption>
        <Chart points={points} step={step} />
        <p className="legend" aria-hidden="true">
          <span className="sw input" /> read <span className="sw cached" /> from cache <span className="sw output" /> written
        </p>
      </figure>
      <h3>Time in each phase</h3>
      <ul className="phases">
        {phases
          .filter((p) => (view.phase_ms[p] ?? 0) > 0)
          .map((phase) => (
            <li key={phase}>
              <span>{phase}</span>
              <span>{duration(view.phase_ms[phase]!)}</span>
            </li>
          ))}
      </ul>
    </div>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Points taken together so that there are at most so many. */
export function bucket(points: UsagePoint[], most: number): UsagePoint[] {
  const size = Math.ceil(points.length / most);
  if (size <= 1) return points;
  const out: UsagePoint[] = [];
  for (let i = 0; i < points.length; i += size) {
    const part = points.slice(i, i + size);
    const last = part.at(-1)!;
    const mean = (f: (p: UsagePoint) => number) => part.reduce((n, p) => n + f(p), 0) / part.length;
    out.push({ ...last, input: mean((p) => p.input), cached: mean((p) => p.cached), output: mean((p) => p.output) });
  }
  return out;
}

const phone = matchMedia("(max-width: 600px)");

/** How wide charts are drawn, so that their text is as large as elsewhere. */
export function useChartWidth(): number {
  return useSyncExternalStore(
    (changed) => {
      phone.addEventListener("change", changed);
      return () => phone.removeEventListener("change", changed);
    },
    () => (phone.matches ? 300 : 600),
  );
}

function Chart({ points, step }: { points: UsagePoint[]; step: number | null }) {
  const W = useChartWidth();
  const data = bucket(points, W < 400 ? bars / 2 : bars);
  const top = niceTop(Math.max(...data.map((p) => p.input + p.cached + p.output), 1));
  const total = Math.max(points.at(-1)!.tokens, 1);
  const bw = W / Math.max(data.length, 12);
  const y = (v: number) => (v / top) * H;
  const line = data.map((p, i) => `${i * bw + bw / 2},${H - (p.tokens / total) * H}`).join(" ");
  return (
    <svg className="chart" viewBox={`-44 -8 ${W + 88} ${H + 30}`} role="img" aria-label={`${points.length} answers, ${count(total)} tokens in all`}>
      {[0, 0.5, 1].map((f) => (
        <g key={f}>
          <line x1="0" x2={W} y1={H - f * H} y2={H - f * H} className="grid" />
          <text x="-6" y={H - f * H + 4} textAnchor="end">
            {count(Math.round(top * f))}
          </text>
          <text x={W + 6} y={H - f * H + 4} textAnchor="start">
            {count(Math.round(total * f))}
          </text>
        </g>
      ))}
      {data.map((p, i) => {
        const h = [p.cached, p.input, p.output].map(y) as [number, number, number];
        const x = i * bw + bw * 0.15;
        return (
          <g key={i} className={step !== null && p.step > step ? "later" : ""}>
            <title>{`Step ${p.step}: ${count(Math.round(p.input))} read, ${count(Math.round(p.cached))} from cache, ${count(Math.round(p.output))} written`}</title>
            <rect x={x} width={bw * 0.7} y={H - h[0]} height={h[0]} className="cached" />
            <rect x={x} width={bw * 0.7} y={H - h[0] - h[1]} height={h[1]} className="input" />
            <rect x={x} width={bw * 0.7} y={H - h[0] - h[1] - h[2]} height={h[2]} className="output" />
          </g>
        );
      })}
      <polyline points={line} className="sum" />
      <text x="0" y={H + 18}>
        step {data[0]!.step}
      </text>
      <text x={data.length * bw} y={H + 18} textAnchor="end">
        {data.at(-1)!.step}
      </text>
      <text x={W} y={H + 18} textAnchor="end" className="sum-label">
        line: sum
      </text>
    </svg>
  );
}

function niceTop(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 2.5, 5, 10].map((m) => m * p).find((t) => t >= v) ?? v;
}
