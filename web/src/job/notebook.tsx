import { useJob } from "./context";
import { Empty } from "../ui/controls";
import { Framed } from "./framed";

/** JupyterLab of the machine, with the kernels that the agent uses. */
export default function Notebook() {
  const { view } = useJob();
  if (view.status !== "running" || !view.sandbox?.id) return <Empty icon="book" title="There is no machine yet" />;
  return <Framed port="notebook" title="JupyterLab" />;
}
