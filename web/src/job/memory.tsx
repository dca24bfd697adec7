// What the model has before it: how full its window is, what was folded, and
// what stands for it.
import { useState } from "react";
import { count, dollars, percent, plural } from "../model/format";
import { reasonOf, thinned, total, type Fold as FoldMark, type WindowPoint } from "../model/memory";
import { plain } from "../model/ansi";
import { href } from "../router";
import { Button, Empty } from "../ui/controls";
import { useJob, useMayControl } from "./context";
import { useChartWidth } from "./usage";
import { WholeOutput } from "./images";
import { firstLine, Fold, NoteList, Verbatim } from "./notes";
import { RequestDialog } from "./request";

const H = 170;
const bars = 100; // at most; of more steps the fullest of each bunch is shown

export default function MemoryPane() {
  const { history, view, step } = useJob();
  const mayControl = useMayControl(); // the server shows requests to nobody who may only watch
  const [open, setOpen] = useState(0);
  const m = history.memory;
  const state = view.memory;
  const now = m.pointAt(step);
  if (!now && !state)
    return (
      <Empty icon="layers" title="The model has not been asked yet">
        <p>What it has before it, and what of it was folded, is shown here.</p>
      </Empty>
    );
  const last = history.steps.at(-1)?.step ?? 0;
  const at = Math.min(step ?? last, last);
  const project = m.project?.name ?? view.project;
  const instructions = [...m.instructions].filter(([, i]) => i.text);
  return (
    <div className="usage memory-pane">
      <dl className="usage-figures">
        {now && <Figure name="In the window" value={count(total(now))} />}
        <Figure name="Folds" value={count(m.folds.length)} />
        <Figure name="From cache" value={percent(state?.cache_share ?? 0)} />
        {m.folds.length > 0 && <Figure name="Cached since fold" value={percent(state?.epoch_cache_share ?? 0)} />}
        <Figure name="Notes" value={count(m.made)} />
        {m.costMicros > 0 && <Figure name="Their cost" value={dollars(m.costMicros)} />}
      </dl>
      {now && <WindowBar point={now} label={step === null ? "Now" : `Step ${now.step}`} />}
      {m.points.length > 1 && (
        <figure>
          <figcaption>The window over the steps</figcaption>
          <WindowChart points={m.points} folds={m.folds} step={step} />
        </figure>
      )}
      {mayControl && last > 0 && at > 0 && (
        <Button small icon="search" className="self-start" onClick={() => setOpen(at)}>
          What the model saw at step {at}
        </Button>
      )}
      {m.folds.length > 0 && <Folds folds={m.folds} />}
      {m.notes.length > 0 && (
        <section>
          <h3>Notes on what happened</h3>
          <p className="note">
            Written by the model where nothing else is said, and only data: nothing in them can change a rule or a limit. {m.digests > 0 && `${plural(m.digests, "note")} of ${m.made} ${m.digests === 1 ? "was" : "were"} derived from the events without a model.`}
          </p>
          <NoteList notes={m.notes} />
        </section>
      )}
      {instructions.length > 0 && (
        <section>
          <h3>Standing instructions</h3>
          <p className="note">From files of the workspace; they are in every request, word for word, and so is what you asked for.</p>
          {instructions.map(([path, i]) => (
            <Fold key={path} title={<code>{plain(path)}</code>} peek={firstLine(i.text)}>
              {() => (
                <>
                  <Verbatim text={i.text} />
                  {i.blob && <WholeOutput handle={i.blob} />}
                </>
              )}
            </Fold>
          ))}
        </section>
      )}
      {project && (
        <section>
          <h3>Project {plain(project)}</h3>
          <p className="note">
            {m.project?.files.length ? "What earlier jobs of it noted; this one adds to it when it is complete." : "This job was told nothing of it: there was nothing yet, or its memory was off."} <a href={href.project(project)}>Read or change it</a>
          </p>
          {m.project?.files.map((f) => (
            <Fold key={f.name} title={<code>{plain(f.name)}</code>} peek={firstLine(f.text)}>
              {() => <Verbatim text={f.text} />}
            </Fold>
          ))}
        </section>
      )}
      {open > 0 && <RequestDialog step={open} onClose={() => setOpen(0)} />}
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

const parts = [
  { name: "head", text: "head", says: "rules, tools, task, instructions, plan" },
  { name: "folded", text: "folded", says: "notes that stand for what happened" },
  { name: "tail", text: "tail", says: "the newest, word for word" },
] as const;

/** What fills the window at one step. */
function WindowBar({ point, label }: { point: WindowPoint; label: string }) {
  const full = Math.max(point.window, point.high, total(point), 1);
  let x = 0;
  return (
    <figure>
      <figcaption>
        {label}: {count(total(point))} tokens{point.window > 0 && ` of ${count(point.window)}`}
      </figcaption>
      <svg className="window-bar" viewBox="0 0 1000 26" preserveAspectRatio="none" role="img" aria-label={parts.map((p) => `${p.text} ${count(point[p.name])}`).join(", ")}>
        <rect x="0" y="4" width="1000" height="18" className="free" />
        {parts.map((p) => {
          const w = (point[p.name] / full) * 1000;
          const at = x;
          x += w;
          return <rect key={p.name} x={at} y="4" width={w} height="18" className={p.name} />;
        })}
        {point.high > 0 && <rect x={(point.high / full) * 1000 - 1} y="0" width="3" height="26" className="mark" />}
      </svg>
      <ul className="legend wrap">
        {parts.map((p) => (
          <li key={p.name} title={p.says}>
            <span className={`sw ${p.name}`} aria-hidden="true" /> {p.text} <strong>{count(point[p.name])}</strong> <span className="muted no-phone">{p.says}</span>
          </li>
        ))}
        {point.high > 0 && (
          <li>
            <span className="sw mark" aria-hidden="true" />
            <span>
              folds at <strong>{count(point.high)}</strong>, down to <strong>{count(point.low)}</strong>
            </span>
          </li>
        )}
      </ul>
    </figure>
  );
}

function WindowChart({ points, folds, step }: { points: WindowPoint[]; folds: FoldMark[]; step: number | null }) {
  const W = useChartWidth();
  const data = thinned(points, W < 400 ? bars / 2 : bars);
  const high = points.at(-1)!.high;
  const top = niceTop(Math.max(...data.map(total), high, 1));
  const bw = W / Math.max(data.length, 12);
  const y = (v: number) => (v / top) * H;
  // A fold is between the step before it and the next one.
  const x = (s: number) => {
    const next = data.findIndex((p) => p.step > s);
    return (next < 0 ? data.length : next) * bw;
  };
  return (
    <>
      <svg className="chart" viewBox={`-44 -12 ${W + 48} ${H + 34}`} role="img" aria-label={`${points.length} steps, ${folds.length} folds; at most ${count(Math.max(...data.map(total)))} tokens`}>
        {[0, 0.5, 1].map((f) => (
          <g key={f}>
            <line x1="0" x2={W} y1={H - f * H} y2={H - f * H} className="grid" />
            <text x="-6" y={H - f * H + 4} textAnchor="end">
              {count(Math.round(top * f))}
            </text>
          </g>
        ))}
        {data.map((p) => {
          const i = data.indexOf(p);
          const left = i * bw + bw * 0.1;
          const h = parts.map((q) => y(p[q.name]));
          return (
            <g key={p.step} className={step !== null && p.step > step ? "later" : ""}>
              <title>{`Step ${p.step}: head ${count(p.head)}, folded ${count(p.folded)}, tail ${count(p.tail)}`}</title>
              <rect x={left} width={bw * 0.8} y={H - h[0]!} height={h[0]} className="head" />
              <rect x={left} width={bw * 0.8} y={H - h[0]! - h[1]!} height={h[1]} className="folded" />
              <rect x={left} width={bw * 0.8} y={H - h[0]! - h[1]! - h[2]!} height={h[2]} className="tail" />
            </g>
          );
        })}
        {high > 0 && (
          <>
            <line x1="0" x2={W} y1={H - y(high)} y2={H - y(high)} className="high" />
            <text x="2" y={H - y(high) - 5}>
              high mark
            </text>
          </>
        )}
        {folds.map((f) => (
          <g key={f.seq} className="fold-mark">
            <title>{`Fold after step ${f.step}: ${reasonOf(f.reason)}`}</title>
            <line x1={x(f.step)} x2={x(f.step)} y1={-4} y2={H} />
            <path d={`M${x(f.step) - 4} -10h8l-4 6z`} />
          </g>
        ))}
        <text x="0" y={H + 18}>
          step {data[0]!.step}
        </text>
        <text x={data.length * bw} y={H + 18} textAnchor="end">
          {data.at(-1)!.step}
        </text>
      </svg>
    </>
  );
}

function niceTop(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10].map((m) => m * p).find((t) => t >= v) ?? v;
}

function Folds({ folds }: { folds: FoldMark[] }) {
  return (
    <section>
      <h3>Folds</h3>
      <div className="table-wrap" tabIndex={0} role="group" aria-label="Folds">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">After step</th>
              <th scope="col">Why</th>
              <th scope="col" className="num no-phone">
                Up to event
              </th>
              <th scope="col" className="num">
                Tokens
              </th>
            </tr>
          </thead>
          <tbody>
            {folds
              .slice(-50)
              .reverse()
              .map((f) => (
                <tr key={f.seq}>
                  <td>{f.step}</td>
                  <td>{reasonOf(f.reason)}</td>
                  <td className="num no-phone">{f.through}</td>
                  <td className="num">
                    {count(f.before)} &rarr; {count(f.after)}
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

