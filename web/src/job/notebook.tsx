import { useState } from "react";
import { useJob } from "./context";
import { Empty } from "../ui/controls";
import { Framed } from "./framed";

/** JupyterLab of the machine, with the kernels that the agent uses. */
export default function Notebook() {
  const { view, history } = useJob();
  // The cells of the agent, once there are some.
  const [ran] = useState(() => history.items.some((i) => i.kind === "tool" && i.name === "code" && i.state !== "running"));
  if (view.status !== "running" || !view.sandbox?.id) return <Empty icon="book" title="There is no machine yet" />;
  return <Framed port="notebook" title="JupyterLab" path={ran ? "/lab/tree/notebooks/session.ipynb" : undefined} />;
}
