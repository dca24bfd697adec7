// The right pane: the machine, and what it leaves behind.
import { lazy, Suspense, type ReactNode } from "react";
import { Loading } from "../ui/controls";
import { Tabs, type Tab } from "../ui/tabs";
import { useJob, useMayControl } from "./context";
import { Files } from "./files";
import { Network } from "./network";
import { Result } from "./result";
import { UsageChart } from "./usage";

const Screen = lazy(() => import("./screen"));
const Terminal = lazy(() => import("./terminal"));
const Preview = lazy(() => import("./preview"));
const MemoryPane = lazy(() => import("./memory"));
const Notebook = lazy(() => import("./notebook"));

export function useSideTabs(narrow: boolean): Tab[] {
  const { history, view, ended } = useJob();
  const mayControl = useMayControl();
  const tabs: Tab[] = [];
  // A question is answered there; who looks at the screen would not see it.
  if (narrow) tabs.push({ id: "activity", label: "Activity", icon: "list", badge: view.question && mayControl ? "asks" : undefined, tone: "warn" });
  if (view.status === "complete" || view.error || view.artifact || ended) tabs.push({ id: "result", label: "Result", icon: "flag" });
  tabs.push({ id: "screen", label: "Screen", icon: "screen" }, { id: "files", label: "Files", icon: "folder" });
  if (ended || mayControl) tabs.push({ id: "terminal", label: "Terminal", icon: "terminal" });
  if (!ended && mayControl) tabs.push({ id: "preview", label: "Preview", icon: "globe" }, { id: "notebook", label: "Notebook", icon: "book" });
  const refused = history.egress.filter((e) => !e.allowed).length;
  tabs.push({ id: "network", label: "Network", icon: "network", badge: refused > 0 ? String(refused) : undefined }, { id: "usage", label: "Usage", icon: "chart" }, { id: "memory", label: "Memory", icon: "layers" });
  return tabs;
}

export function Side({ tabs, tab, setTab, activity }: { tabs: Tab[]; tab: string; setTab: (t: string) => void; activity?: ReactNode }) {
  const { ended } = useJob();
  return (
    <Tabs label="The job's machine and project" tabs={tabs} value={tab} onChange={setTab}>
      <Suspense fallback={<Loading />}>
        {tab === "activity" && activity}
        {tab === "result" && <Result />}
        {tab === "screen" && <Screen key={String(ended)} />}
        {tab === "files" && <Files />}
        {tab === "terminal" && <Terminal key={String(ended)} />}
        {tab === "preview" && <Preview />}
        {tab === "notebook" && <Notebook />}
        {tab === "network" && <Network />}
        {tab === "usage" && <UsageChart />}
        {tab === "memory" && <MemoryPane />}
      </Suspense>
    </Tabs>
  );
}
